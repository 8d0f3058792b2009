"""Parts of an agent without an engine: the brokers are those that librdkafka has for tests, with real sockets and a real consumer group."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from confluent_kafka import Producer
from engine import WAIT_SECONDS

from sagalog import Attempt, Json
from sagalog.execution import Execution
from sagalog.reader import Reader
from sagalog.request import Request
from sagalog.wire import event, instant

TOPIC = "sagalog.work.card"


def work(task: str, **more: Any) -> bytes:
    by = instant(datetime.now(UTC) + timedelta(minutes=30))
    known = {"task": task, "run": 1, "workflow": "w", "version": 1, "step": "s", "operation": "do", "attempt": 1, "idempotency_key": task, "complete_by": by}
    return json.dumps({**known, **more}).encode()


class Brokers:
    def __init__(self) -> None:
        self.client = Producer({"test.mock.num.brokers": 1, "partitioner": "murmur2_random"})
        (broker,) = self.client.list_topics(timeout=60).brokers.values()
        self.address = f"{broker.host}:{broker.port}"
        self.group: dict[str, Any] = {
            "bootstrap.servers": self.address, "group.id": "sagalog.agents.card", "partition.assignment.strategy": "cooperative-sticky",
            "enable.auto.commit": False, "auto.offset.reset": "earliest", "session.timeout.ms": 10_000, "heartbeat.interval.ms": 500,
        }  # fmt: skip

    def ask(self, task: str, partition: int) -> None:
        self.client.produce(TOPIC, work(task), task, partition, headers=event("sagalog.work", task, "test"))
        assert self.client.flush(60) == 0


class Sink:
    """Keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    async def send(self, topic: str, key: str, value: bytes | None, headers: object, partition: int = -1) -> None:
        if value is not None:
            self.sent.append(json.loads(value))


class Host:
    """An agent with one operation."""

    name, namespace, instance = "card", "sagalog", "one"

    def __init__(self, do: Callable[[Attempt], Awaitable[Json]], keys: Any = None) -> None:
        self.operations, self.keys = {("", "do"): do}, keys


class Finishes:
    """What an attempt needs of a reader."""

    def __init__(self) -> None:
        self.finished: list[Request] = []
        self.postponed: list[Request] = []

    def finish(self, q: Request) -> None:
        self.finished.append(q)

    def postpone(self, q: Request) -> None:
        self.postponed.append(q)

    def finish_durably(self, q: Request) -> asyncio.Future[bool]:
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        answer.set_result(True)
        return answer


def execution(q: Request, do: Callable[[Attempt], Awaitable[Json]], sink: Sink, reader: Any, keys: Any = None) -> Execution:
    return Execution(Host(do, keys), sink, reader, q)  # type: ignore[arg-type]


async def until(what: str, happened: Callable[[], Any]) -> None:
    end = time.monotonic() + WAIT_SECONDS
    while not happened():
        assert time.monotonic() < end, f"not within {WAIT_SECONDS} s: {what}"
        await asyncio.sleep(0.02)


async def reading(reader: Reader, what: Callable[[], Awaitable[None]]) -> None:
    """Runs the reader in its thread while what runs."""
    thread = asyncio.create_task(asyncio.to_thread(reader.run))
    acting = asyncio.ensure_future(what())
    try:
        await asyncio.wait({thread, acting}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        acting.cancel() if not acting.done() else None
        reader.leave(abandon=True)
        await thread
    await acting


