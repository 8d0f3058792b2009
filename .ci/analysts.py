"""Reads exported tables with DuckDB and pyarrow: the queries of a document, three formats, and a fold written from events/FORMAT.md alone."""
import glob
import json
import os
import re
import sys

import duckdb
import pyarrow.dataset

top, document, fold = (os.path.abspath(p) for p in sys.argv[1:4])
os.chdir(top)

queries = re.findall(r'duckdb -c "(.*)"\n', open(document).read())
assert len(queries) >= 8, f"{document} has {len(queries)} queries"
empty = []
for q in queries:
    if not duckdb.sql(q.replace('\\"', '"')).fetchall():
        empty.append(q)
assert len(empty) <= 1, f"these queries give nothing: {empty}"  # nothing is under way at the instant of the example

facts = duckdb.sql("select * exclude (date, time), epoch_ms(time) as ms from 'history/facts/*/*.parquet' order by partition, \"offset\"")
names = facts.columns
rows = facts.fetchall()
lines = [json.loads(line) for f in glob.glob("jsonl/facts/*/*.jsonl") for line in open(f)]
lines.sort(key=lambda r: (r["partition"], r["offset"]))
assert len(rows) == len(lines) > 500, (len(rows), len(lines))
for row, line in zip(rows, lines):
    for name, value in zip(names, row):
        if name == "ms":
            continue
        if name == "data":
            value = json.loads(value)
        assert value == line.get(name), f"{name} of {line['partition']}@{line['offset']}: Parquet has {value!r}, JSON {line.get(name)!r}"
count = "select count(*), sum(\"offset\"), count(distinct task), count(item), count(step), count(\"by\"), count(attempt), count(operation) from "
parquet = duckdb.sql(count + "'history/facts/*/*.parquet'").fetchall()
assert parquet == duckdb.sql(count + "read_csv('csv/facts/*/*.csv', all_varchar = false, types = {'item': 'INTEGER', 'by': 'VARCHAR'})").fetchall()
assert pyarrow.dataset.dataset("history/facts", partitioning="hive").count_rows() == len(rows)

source = open(fold).read().split("\nstate = None\n")[0]
space = {}
exec(compile(source, fold, "exec"), space)
tasks, accepted = {}, 0
for path in sorted(glob.glob("events.*")):
    state = None
    for text in open(path):
        r = json.loads(text)
        state = state or space["State"](r["partition"])
        state.apply(r)
    for id, t in (state.tasks if state else {}).items():
        tasks[json.loads(id) if id.startswith('"') else id] = t
said = {t: (run, state, steps, attempts) for t, run, state, steps, attempts in duckdb.sql("select task, run, state, steps, attempts from 'history/tasks/*/*.parquet'").fetchall()}
compared, states = 0, {}
for id, t in tasks.items():
    if not id.startswith("d-"):
        continue  # the example went on while kcat read
    run, state, steps, attempts = said[id]
    assert str(run) == str(t["run"]) and state == json.loads(t["state"]), (id, run, state, t["run"], t["state"])
    assert steps == len(t["steps"]), (id, steps, len(t["steps"]))
    made = sum(int(s.get("attempt", 0)) + int(s.get("undo", {}).get("attempt", 0)) for s in t["steps"])
    assert attempts == made, (id, attempts, made)
    states[state] = states.get(state, 0) + 1
    compared += 1
assert compared > 100, compared
assert states.get("undone") and states.get("processed"), states
a, b, c = (duckdb.sql(q).fetchone()[0] for q in (
    "select sum(attempts) from 'history/tasks/*/*.parquet'", "select count(*) from 'history/attempts/*/*.parquet'", "select sum(attempts + undo_attempts) from 'history/steps/*/*.parquet'"))
assert a == b == c, (a, b, c)
print(f"{len(queries)} queries, {len(rows)} facts in three formats, {b} attempts; {compared} tasks as in the other fold: {states}")
