"""The agent on an Apache Kafka whose broker is killed. Runs with SAGALOG_TEST_KAFKA=1."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from bank import Bank
from engine import REPOSITORY, WAIT_SECONDS, Engine, Process, eventually
from test_effects import ORDER, prove, submit

pytestmark = pytest.mark.skipif(os.environ.get("SAGALOG_TEST_KAFKA") != "1", reason="SAGALOG_TEST_KAFKA=1 runs it; it needs Java")


def kafka(*args: str) -> None:
    subprocess.run([str(REPOSITORY / "deploy/kafka/kafka.sh"), *args], check=True, timeout=2 * WAIT_SECONDS)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    dir = tmp_path_factory.mktemp("kafka")
    kafka("up", str(dir / "brokers"), "--port", "0")
    try:
        e = Engine(dir, brokers=(dir / "brokers/bootstrap").read_text().strip())
        yield e
        assert e.process.end() == 0, e.process.said()
    finally:
        kafka("down", str(dir / "brokers"), "--now")


def test_a_killed_broker_loses_and_repeats_nothing(engine: Engine, bank: Bank, tmp_path: Path, processes: list[Process]) -> None:
    engine.apply("order", ORDER)
    agent = engine.agent("card.py", BANK=bank.url, INSTANCE="on-kafka")
    processes.append(agent)
    receipts = submit(engine, {f"before-{i}": {"amount": i} for i in range(5)})
    for r in receipts:
        assert engine.ended(r.id)["state"] == "processed"
    bank.answering.clear()
    receipts += submit(engine, {f"during-{i}": {"amount": i} for i in range(10)})
    eventually("calls wait for an answer", lambda: bank.waiting >= 5)  # as many as asyncio has threads on two cores
    kafka("kill", str(engine.dir / "brokers"), "1")
    bank.answering.set()  # the reports of these calls find no broker
    eventually("all calls have their answer", lambda: bank.waiting == 0)
    kafka("start", str(engine.dir / "brokers"), "1")
    receipts += submit(engine, {f"after-{i}": {"amount": i} for i in range(5)})
    for r in receipts:
        task = engine.ended(r.id)
        assert task["state"] == "processed", task
    assert agent.popen.poll() is None, agent.said()
    prove(engine, bank, receipts, tmp_path)
    assert agent.end() == 0, agent.said()
