"""Producers in front of a real engine."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from engine import REPOSITORY, Engine, eventually

from sagalog import Agent, AgentError, Producer

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
        async with Producer("127.0.0.1:9"):
            raise AssertionError("it is connected to nobody")

    with pytest.raises(AgentError, match="no broker answers at 127.0.0.1:9"):
        asyncio.run(nobody())


def test_an_agent_that_cannot_work_says_why(engine: Engine, tmp_path: Path) -> None:
    agent = Agent("idle", brokers=engine.kafka)
    with pytest.raises(AgentError, match="no operation"):
        asyncio.run(agent.run())
    with pytest.raises(TypeError, match="async function"):
        agent.operation()(lambda a: None)  # type: ignore[arg-type, return-value]
    with pytest.raises(ValueError, match="from 1 to 128"):
        Agent("idle", brokers=engine.kafka, concurrency=1000)
