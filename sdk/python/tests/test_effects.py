"""What agents do to the outside, compared with the log."""

import asyncio
import json
import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from bank import Bank
from engine import Engine, Process, eventually

from sagalog import Producer, Receipt

ORDER = """
workflow: order
defaults:
  complete_within: 2m
  retry: {attempts: 5, backoff: 100ms, then: undo}
steps:
  charge: {agent: card, operation: charge, undo: {}}
  ship: {agent: card, operation: ship, needs: [charge], undo: {}}
"""


def submit(engine: Engine, inputs: dict[str, dict[str, Any]]) -> list[Receipt]:
    async def all_of_them() -> list[Receipt]:
        async with Producer(engine.kafka) as p:
            return await asyncio.gather(*(p.submit("order", id=id, input=i) for id, i in inputs.items()))

    return asyncio.run(all_of_them())


def prove(engine: Engine, bank: Bank, receipts: list[Receipt], dir: Path) -> None:
    """The log keeps its promises, and the ledger holds exactly the calls that the log accounts for."""
    acks = dir / "acks.ndjson"
    acks.write_text("".join(json.dumps({"id": r.id, "partition": r.partition, "offset": r.offset}) + "\n" for r in receipts))
    engine.verify("--ledgers", str(bank.ledger.parent), "--acknowledged", str(acks))
    calls = bank.calls()
    assert max(Counter(c["identifier"] for c in calls if c["outcome"] == "done").values()) == 1
    for task in {r.id for r in receipts}:
        for step in ("charge", "ship"):
            keys = {c["identifier"] for c in calls if (c["task"], c["step"], c["operation"]) == (task, step, "do")}
            assert len(keys) <= 1, f"the attempts of step {step} of {task} had several keys"
            assert len(engine.facts(task, "StepStarted", step)) >= len(keys)


def test_steps_are_done_retried_and_undone(engine: Engine, bank: Bank, tmp_path: Path, processes: list[Process]) -> None:
    engine.apply("order", ORDER)
    processes.append(engine.agent("card.py", BANK=bank.url, INSTANCE="first"))
    inputs: dict[str, dict[str, Any]] = {f"good-{i}": {"amount": i} for i in range(20)}
    inputs |= {f"busy-{i}": {"amount": i, "fail": 2} for i in range(5)}
    inputs |= {f"refused-{i}": {"amount": i, "refuse": True} for i in range(5)}
    receipts = submit(engine, inputs)
    assert {r.id for r in receipts} == set(inputs)
    for id in inputs:
        task = engine.ended(id)
        assert task["state"] == ("undone" if id.startswith("refused") else "processed"), task
    assert engine.task("good-7")["steps"][1]["output"] == {"shipped": 7}  # type: ignore[index]

    failed = engine.facts("busy-1", "StepFailed", "ship")
    assert [f["attempt"] for f in failed] == [1, 2]
    assert failed[0]["error"] == {"class": "retryable", "code": "http_503", "message": "the bank is busy", "detail": {"status": 503}}
    assert failed[0]["effect"] == "none"
    (failed_once,) = engine.facts("refused-1", "StepFailed", "ship")
    assert (failed_once["error"]["class"], failed_once["effect"]) == ("permanent", "none")
    undone = [(c["step"], c["outcome"]) for c in bank.calls() if c["task"] == "refused-1" and c["operation"] == "undo"]
    assert undone == [("charge", "done")], "the step that completed is undone, and the one that had no effect is not"
    prove(engine, bank, receipts, tmp_path)
    assert processes[0].end() == 0, processes[0].said()
    assert "first" not in engine.instances(), "an instance that stops takes back its presence"


@pytest.mark.parametrize("kills", [int(os.environ.get("SAGALOG_SDK_KILLS", "2"))])
def test_a_killed_agent_leads_to_one_effect_for_each_key(engine: Engine, bank: Bank, tmp_path: Path, processes: list[Process], kills: int) -> None:
    engine.apply("order", ORDER)
    receipts: list[Receipt] = []
    for kill in range(kills):
        agent = engine.agent("card.py", BANK=bank.url)
        processes.append(agent)
        before = len(bank.calls())
        bank.answering.clear()
        receipts += submit(engine, {f"killed-{kill}-{i}": {"amount": i} for i in range(10)})
        eventually("calls wait for an answer", lambda: len(bank.calls()) >= before + 5)
        agent.end(signal.SIGKILL)
        bank.answering.set()
    processes.append(engine.agent("card.py", BANK=bank.url))
    for r in receipts:
        task = engine.ended(r.id)
        assert task["state"] == "processed", task
    repeated = [c for c in bank.calls() if c["outcome"] == "repeated" and c["task"].startswith("killed")]
    assert repeated, "an attempt that was cut off is made again, with the same key"
    prove(engine, bank, receipts, tmp_path)
    assert processes[-1].end() == 0
