"""Sealed tasks: the agent opens what it is given, and seals what it gives back."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from bank import Bank
from engine import Engine, Process, eventually

SECRET = "the amount of ada"

ORDER = """
workflow: order
labels: {subject: "${ input.customer }"}
defaults: {complete_within: 2m, retry: {attempts: 5, backoff: 100ms, then: undo}}
steps:
  charge: {agent: card, operation: charge, undo: {}}
  ship: {agent: card, operation: ship, needs: [charge], undo: {}}
"""


@pytest.fixture(scope="module")
def key_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("key") / "seal.key"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory, key_file: Path) -> Iterator[Engine]:
    import subprocess

    from engine import program

    subprocess.run([program(), "key", "create", str(key_file)], check=True, capture_output=True)
    e = Engine(tmp_path_factory.mktemp("engine"), "--seal-key-file", str(key_file))
    e.apply("order", ORDER)
    yield e
    assert e.process.end() == 0, e.process.said()


def submit(engine: Engine, id: str, more: str = "") -> None:
    engine.sagalog("task", "submit", "-w", "order", "--id", id, "--input", f'{{"customer": "c-17", "amount": "{SECRET}"{more}}}')


def test_the_agent_opens_and_seals(engine: Engine, bank: Bank, key_file: Path, processes: list[Process]) -> None:
    processes.append(engine.agent("card.py", BANK=bank.url, KEY_FILE=str(key_file)))
    submit(engine, "sealed-1")
    task = engine.ended("sealed-1")
    assert task["state"] == "processed"
    assert task["steps"][0]["output"] == {"charged": SECRET}
    submit(engine, "sealed-2", ', "refuse": true')
    task = engine.ended("sealed-2")
    assert (task["state"], task["steps"][1]["error"]["message"]) == ("undone", "the bank refused")
    assert task["steps"][1]["error"]["detail"] == {"status": 422}
    log = b"".join(p.read_bytes() for p in (engine.dir / "data" / "broker").rglob("*") if p.is_file())
    assert b"$sealed" in log
    assert SECRET.encode() not in log, "nothing is in clear text on the disk"
    assert b"the bank refused" not in log


def test_without_the_key_nothing_is_tried(engine: Engine, bank: Bank, key_file: Path, processes: list[Process]) -> None:
    keyless = engine.agent("card.py", BANK=bank.url)
    processes.append(keyless)
    submit(engine, "sealed-3")
    eventually("the attempt is not made", lambda: [f for f in engine.facts("sealed-3", "StepFailed", "charge") if f["error"]["code"] == "no_key"])
    assert not [c for c in bank.calls() if c["task"] == "sealed-3"]
    assert keyless.end() == 0
    processes.append(engine.agent("card.py", BANK=bank.url, KEY_FILE=str(key_file)))
    assert engine.ended("sealed-3")["state"] == "processed"


def test_erased_content_is_refused(engine: Engine, bank: Bank, key_file: Path, processes: list[Process]) -> None:
    """The task waits while its agent is away, and then its subject is erased."""
    submit(engine, "sealed-4")
    eventually("it is accepted", lambda: engine.task("sealed-4"))
    engine.sagalog("namespace", "erase", "--brokers", engine.kafka, "--subject", "c-17", "--yes")
    processes.append(engine.agent("card.py", BANK=bank.url, KEY_FILE=str(key_file)))
    assert engine.ended("sealed-4")["state"] in ("undone", "error")
    assert not [c for c in bank.calls() if c["task"] == "sealed-4"]
