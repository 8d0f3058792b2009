"""Reads exported tables and logs with DuckDB, pyarrow and pm4py: what a document shows, three formats, and a fold written from events/FORMAT.md alone."""
import contextlib
import glob
import hashlib
import io
import json
import os
import re
import sys

import duckdb
import pm4py
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

# Columns that follow from the facts, against what DuckDB makes of the facts themselves.
def both(what, one_way, other_way):
    a, b = duckdb.sql(one_way).fetchall(), duckdb.sql(other_way).fetchall()
    assert a == b and a, f"{what}: {a[:5]} and {b[:5]}"
    return a


both("waited_s", "select count(*), round(sum(waited_s), 3) from 'history/steps/*/*.parquet' where waited_s is not null", """
    select count(*), round(sum(waited), 3) from (
        select arg_min(epoch_ms(time) - epoch_ms(coalesce((data->>'ready_at')::timestamptz, time)), "offset") / 1000 as waited
        from 'history/facts/*/*.parquet' where type = 'StepStarted' group by task, incarnation, coalesce((data->>'run')::int, 1), data->>'step')""")
ended = both("ended_by", "select state, ended_by, count(*) from 'history/tasks/*/*.parquet' where ended_at is not null group by all order by all", """
    with turns as (
        select task, incarnation, run, arg_min(case type when 'CancelRequested' then 'operator' when 'DeadlinePassed' then 'deadline' else 'policy' end, "offset") as by
        from 'history/facts/*/*.parquet'
        where type = 'CancelRequested' or type = 'DeadlinePassed' and (data->>'action') = 'undo' or type in ('StepFailed', 'Timeout') and (data->>'$.verdict.action') = 'undo' group by all)
    select case f.type when 'TaskProcessed' then 'processed' when 'TaskUndone' then 'undone' else 'terminated' end,
        case f.type when 'TaskProcessed' then 'policy' when 'TaskTerminated' then 'operator' else t.by end, count(*)
    from 'history/facts/*/*.parquet' f left join turns t using (task, incarnation, run)
    where f.type in ('TaskProcessed', 'TaskUndone', 'TaskTerminated') group by all order by all""")
assert {by for _, by, _ in ended} >= {"policy", "operator"}, ended
bodies = {(workflow, version): json.loads(data)["body"] for workflow, version, data in duckdb.sql(
    "select data->>'workflow', (data->>'version')::int, any_value(data) from 'history/facts/*/*.parquet' where type = 'DefinitionAdopted' group by all").fetchall()}


def policy(members, names):
    text = json.dumps({n: members[n] for n in names if n in members}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


defined = {(w, v, s["id"]): s for (w, v), body in bodies.items() for s in body["steps"]}
seen = duckdb.sql("select distinct workflow, version, step, operation, policy_hash from 'history/attempts/*/*.parquet'").fetchall()
for w, v, step, operation, said_hash in seen:
    s = defined[w, v, step]
    names = ("complete_within", "cool_down", "heartbeat", "on_timeout", "retry", "start_within") if operation == "do" else ("complete_within", "retry")
    assert said_hash == policy(s if operation == "do" else s["undo"], names), (w, step, operation, said_hash)
listed = duckdb.sql("select distinct workflow, version, step, needs from 'history/steps/*/*.parquet'").fetchall()
for w, v, step, needs in listed:
    assert needs == sorted(defined[w, v, step].get("needs", [])), (w, step, needs)
assert any(needs for *_, needs in listed)
one_shop = "select count(*) from 'history/tasks/*/*.parquet' where labels['shop'] = 'vienna'"
assert duckdb.sql(one_shop).fetchone() == duckdb.sql("select count(*) from 'history/facts/*/*.parquet' where type = 'Submitted' and (data->>'$.labels.shop') = 'vienna'").fetchone()
table = pyarrow.dataset.dataset("history/tasks", partitioning="hive").to_table(columns=["task", "labels"])
assert str(table.schema.field("labels").type).startswith("map<string, string"), table.schema
assert sum(1 for labels in table["labels"].to_pylist() if labels and dict(labels).get("shop") == "vienna") == duckdb.sql(one_shop).fetchone()[0] > 100
assert str(pyarrow.dataset.dataset("history/steps", partitioning="hive").schema.field("needs").type).startswith("list<"), "needs is a list"
print(f"ended by {ended}, {len(seen)} operations with their policies, needs of {len(listed)} steps")

# The logs for process mining are about the same runs and attempts as the tables.
def one(query):
    return duckdb.sql(query).fetchone()[0]


log = pm4py.read_xes("history/xes/log.xes")
assert log["case:concept:name"].nunique() == one("select count(*) from 'history/tasks/*/*.parquet'")
of_attempts = log[log["attempt"].notna()]
parts = of_attempts["lifecycle:transition"].value_counts().to_dict()
assert parts == {
    "start": b,
    "complete": one("select count(*) from 'history/attempts/*/*.parquet' where outcome = 'completed'"),
    "ate_abort": one("select count(*) from 'history/attempts/*/*.parquet' where outcome in ('failed', 'timed_out')"),
}, parts
assert parts["ate_abort"] > 10, parts
times = duckdb.sql("select epoch_ms(started_at) from 'history/attempts/*/*.parquet' order by 1").fetchall()
assert sorted(int(t.timestamp() * 1000 + 0.5) for t in of_attempts[of_attempts["lifecycle:transition"] == "start"]["time:timestamp"]) == [t for t, in times]
processed, undone = (one(f"select count(*) from 'history/tasks/*/*.parquet' where state = '{s}'") for s in ("processed", "undone"))
graph, begins, ends = pm4py.discover_dfg(log[log["lifecycle:transition"] == "complete"])
assert begins == {"task submitted": log["case:concept:name"].nunique()}, begins
assert ends["task processed"] == processed and ends["task undone"] == undone, ends
assert graph[("drone", "delivery")] == graph[("delivery", "task processed")] == processed, graph
assert ("delivery", "drone") not in graph and graph[("transport (undo)", "package (undo)")] > 0, graph

ocel = pm4py.read_ocel2_json("history/ocel/log.ocel.json")
assert len(ocel.events) == len(log), (len(ocel.events), len(log))
objects = ocel.objects["ocel:type"].value_counts().to_dict()
assert objects == {
    "task": log["case:concept:name"].nunique(),
    "step": one("select count(*) from 'history/steps/*/*.parquet'"),
    "agent": one("select count(distinct agent) from 'history/attempts/*/*.parquet'"),
    "workflow": one("select count(distinct workflow) from 'history/tasks/*/*.parquet'"),
    "shop": one("select count(distinct labels['shop']) from 'history/tasks/*/*.parquet'"),
}, objects
edges = pm4py.discover_ocdfg(pm4py.filter_ocel_event_attribute(ocel, "lifecycle", ["complete"]))["edges"]["event_couples"]["task"]
assert len(edges[("drone", "delivery")]) == processed, edges.keys()

programs = re.findall(r"```python\n(.*?)```", open(document).read(), re.S)
assert programs, f"{document} has no program"
for text in programs:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(text, document, "exec"), {})
    assert "drone -> delivery" in out.getvalue(), out.getvalue()
print(f"{log['case:concept:name'].nunique()} traces and {len(log)} events in XES and OCEL, {len(graph)} edges, {len(programs)} programs of the document")

# The estimate of what another policy would have done is about the same tasks as the tables, and each task has a line.
estimate = json.load(open("whatif.json"))
assert estimate["calibration"]["same_end"] >= 0.95, estimate["calibration"]
ends = estimate["what_if"]["ends"]
replayed = one("select count(*) from read_json('tasks.jsonl') where not_replayed is null") if "not_replayed" in duckdb.sql("select * from read_json('tasks.jsonl')").columns else one("select count(*) from read_json('tasks.jsonl')")
assert replayed == estimate["what_if"]["tasks"] == sum(e["history"] for e in ends.values()) > 100, (replayed, estimate)
assert ends["error"]["high"] > ends["error"]["history"], ends  # a first failure parks
wrong = one("select count(*) from read_json('tasks.jsonl') w join 'history/tasks/*/*.parquet' t using (task, incarnation) where w.history.state <> t.state")
assert wrong == 0, wrong
print(f"what-if: {replayed} tasks, own policy {estimate['calibration']['same_end']:.3f}, ends {ends}")
