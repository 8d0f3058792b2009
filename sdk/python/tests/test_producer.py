"""Producers in front of a real engine."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sagalog.reader
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from engine import REPOSITORY, Engine, eventually
from world import until

from sagalog import Agent, AgentError, Attempt, NotAcknowledged, NotSent, Producer, Receipt, Rejected

APPROVAL = """
workflow: approval
steps:
  ask: {wait: {signal: approval}}
"""


def produce(engine: Engine, what: Callable[[Producer], Coroutine[Any, Any, Any]], **more: Any) -> Any:
    async def all_of_it() -> Any:
        async with Producer(engine.kafka, **more) as p:
            return await what(p)

    return asyncio.run(all_of_it())


def test_a_task_goes_to_its_home_partition(engine: Engine) -> None:
    """The table of events/FORMAT.md, "Home partition"."""
    engine.apply("approval", APPROVAL)
    rows = [line.split("|") for line in (REPOSITORY / "events/FORMAT.md").read_text().splitlines() if line.startswith("| `") and line.count("|") == 4]
    homes = {row[1].strip().strip("`"): int(row[3]) for row in rows if row[2].strip().lstrip("-").isdigit() and row[3].strip().isdigit()}
    assert len(homes) >= 8
    for id, home in homes.items():
        assert produce(engine, lambda p, id=id: p.submit("approval", id=id)).partition == home  # type: ignore[misc]
        eventually(f"{id} is accepted", lambda id=id: engine.task(id))  # type: ignore[misc]


def test_a_repeated_submission_is_one_task(engine: Engine) -> None:
    engine.apply("approval", APPROVAL)

    async def twice(p: Producer) -> None:
        for _ in range(2):
            await p.submit("approval", id="twice", input={"a": 1}, labels={"region": "north"}, priority=3, deadline=timedelta(days=2))
        await p.signal("twice", "approval", {"decision": "yes"}, id="s-1", by="ada")

    produce(engine, twice)
    task = engine.ended("twice")
    assert (task["state"], task["labels"], task["priority"]) == ("processed", {"region": "north"}, 3)
    assert [f["type"] for f in engine.history("twice")].count("Submitted") == 1
    assert task["steps"][0]["output"]["payload"] == {"decision": "yes"}
    assert not json.loads(engine.sagalog("dlq", "list", "-o", "json"))


def test_a_producer_writes_submissions_only(engine: Engine) -> None:
    """The role producer may write nothing else (sagalog generate acls)."""
    engine.apply("approval", APPROVAL)
    allowed = engine.sagalog("generate", "acls", "--role", "producer", "--principal", "User:p")
    assert "sagalog.submissions" in allowed and "sagalog.reports" not in allowed

    async def all_kinds(p: Producer) -> list[Receipt]:
        return [await p.submit("approval", id="kinds"), await p.cancel("kinds"), await p.signal("kinds", "approval"), await p.signal("kinds", "approval", id="mine")]

    receipts = produce(engine, all_kinds)
    c = Consumer({"bootstrap.servers": engine.kafka, "group.id": "unused", "enable.auto.commit": False})
    c.assign([TopicPartition("sagalog.submissions", receipts[0].partition, receipts[0].offset)])
    found: dict[int, dict[str, Any]] = {}

    def read() -> bool:
        if (m := c.poll(0.1)) is not None and m.error() is None:
            found[m.offset() or 0] = json.loads(m.value() or b"")
        return receipts[-1].offset in found

    eventually("the records are read", read)
    c.close()
    assert [(r.id, r.request) for r in receipts[:1]] == [("kinds", "")]
    for r, kind in zip(receipts[1:], ("cancel", "signal", "signal"), strict=True):
        value = found[r.offset]
        assert (value["kind"], value["task"], value["id"], r.id) == (kind, "kinds", r.request, "kinds"), "the receipt has the ID that was made"
    assert receipts[3].request == "mine"
    assert engine.ended("kinds")["state"] == "undone", "the engine has read the cancel"


@pytest.mark.parametrize(
    "code, error",
    [
        (KafkaError._MSG_TIMED_OUT, NotAcknowledged),
        (KafkaError.NOT_ENOUGH_REPLICAS, NotAcknowledged),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, Rejected),
        (KafkaError.MSG_SIZE_TOO_LARGE, Rejected),
    ],
)
def test_an_error_has_the_id_to_repeat_with(code: int, error: type[NotSent]) -> None:
    """A repeated signal with another ID would be a second signal."""
    sent: list[dict[str, Any]] = []

    class Away:
        async def send(self, topic: str, key: str, value: bytes, *more: object) -> None:
            sent.append(json.loads(value))
            raise KafkaException(KafkaError(code))

    async def main() -> None:
        p = Producer("127.0.0.1:9")
        p._sink = Away()  # type: ignore[assignment]
        for call in (p.submit("w"), p.signal("t", "s"), p.cancel("t")):
            with pytest.raises(error) as e:
                await call
            assert e.value.id == sent[-1]["id"]
            assert isinstance(e.value, NotAcknowledged) is (f"with the ID {e.value.id!r}" in str(e.value))

    asyncio.run(main())


def test_what_is_too_large_is_rejected(engine: Engine) -> None:
    with pytest.raises(Rejected, match="make it smaller"):
        produce(engine, lambda p: p.signal("large", "approval", "x" * (8 << 20)))


def test_a_submission_may_wait(engine: Engine) -> None:
    engine.apply("approval", APPROVAL)
    at = datetime.now(UTC).replace(microsecond=0) + timedelta(days=365)
    receipt = produce(engine, lambda p: p.submit("approval", not_before=at))
    task = eventually("it is accepted", lambda: engine.task(receipt.id))
    assert datetime.fromisoformat(task["not_before"]) == at


def test_a_missing_namespace_and_a_missing_broker(engine: Engine) -> None:
    with pytest.raises(AgentError, match="no namespace 'other'.*they have: sagalog"):
        produce(engine, lambda p: p.submit("approval"), namespace="other")

    async def nobody() -> None:
        async with Producer("127.0.0.1:9", timeout=1):
            raise AssertionError("it is connected to nobody")

    with pytest.raises(AgentError, match="no broker answers at 127.0.0.1:9"):
        asyncio.run(nobody())


def test_an_agent_that_cannot_work_says_why(engine: Engine, tmp_path: Path) -> None:
    agent = Agent("idle", brokers=engine.kafka)
    with pytest.raises(AgentError, match="no operation"):
        asyncio.run(agent.run())
    with pytest.raises(TypeError, match="async function"):
        agent.operation()(lambda a: None)  # type: ignore[type-var]
    with pytest.raises(ValueError, match="from 1 to 128"):
        Agent("idle", brokers=engine.kafka, concurrency=1000)


def test_an_agent_says_each_minute_that_it_waits(engine: Engine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(sagalog.reader, "WAITING_SECONDS", 0.5)
    caplog.set_level("INFO", "sagalog")
    waiting = "waiting for the topic sagalog.work.cashier"

    async def main() -> None:
        agent = Agent("cashier", brokers=engine.kafka)

        @agent.operation()
        async def ok(a: Attempt) -> None:
            pass

        running = asyncio.create_task(agent.run())
        await until("it is said twice", lambda: caplog.text.count(waiting) >= 2)
        await asyncio.to_thread(engine.apply, "named", "workflow: named\nsteps: {s: {agent: cashier}}\n")
        async with Producer(engine.kafka) as p:
            await p.submit("named", id="named-1")
        assert (await asyncio.to_thread(engine.ended, "named-1"))["state"] == "processed"
        assert "this instance has the partitions [0" in caplog.text
        assert waiting in caplog.text.partition("this instance has the partitions [0")[0]
        agent.stop()
        await running

    asyncio.run(main())


@pytest.mark.parametrize(
    "given, why",
    [
        ({"id": ""}, "1 to 255 bytes"),
        ({"id": ".."}, "is not . or .."),
        ({"id": "é" * 128}, "1 to 255 bytes"),
        ({"id": "a\nb"}, "control characters"),
        ({"workflow": ""}, "cannot name a workflow"),
        ({"workflow": "Bad Name"}, "cannot name a workflow"),
        ({"priority": 1001}, "from -1000 to 1000"),
        ({"priority": -1001}, "from -1000 to 1000"),
        ({"input": {1, 2}}, "cannot be written as JSON"),
        ({"input": float("nan")}, "cannot be written as JSON"),
        ({"input": "x" * (2 << 20)}, "a namespace takes at most"),
        ({"labels": {"a:b": "c"}}, "label 'a:b'"),
        ({"labels": {str(n): "c" for n in range(33)}}, "at most 32 labels"),
    ],
    ids=lambda v: str(v)[:40],
)
def test_what_no_engine_accepts_is_a_fault(given: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        asyncio.run(Producer("127.0.0.1:1").submit(**{"workflow": "order", **given}))
