"""Writes records, and awaits the answer of the brokers."""

import asyncio
import logging
import threading
import time
from types import TracebackType
from typing import Any, Self

from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka import Producer as Client

from sagalog.errors import AgentError

SELDOM_SECONDS = 30.0


class Seldom(logging.Filter):
    """Lets a kind of message of the Kafka client through once in a while: while no broker answers it writes many lines a second."""

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        kind = str(record.args[0]) if isinstance(record.args, tuple) and record.args else record.msg
        now = time.monotonic()
        if now - self._said.get(kind, -SELDOM_SECONDS) < SELDOM_SECONDS:
            return False
        self._said[kind] = now
        return True


client_log = logging.getLogger("sagalog.kafka")
client_log.addFilter(Seldom())

POLL_SECONDS = 0.2
CONNECT_SECONDS = 20.0


class Sink:
    """One Kafka producer, and the thread that receives its answers."""

    def __init__(self, config: dict[str, Any]) -> None:
        # murmur2 puts a task's records into its home partition. Repeats of a record change nothing, so the producer need not be idempotent; one that
        # is ends for good when brokers forget its sequence numbers.
        self._client = Client({"linger.ms": 1, "enable.metrics.push": False, "logger": client_log, **config, "acks": "all", "enable.idempotence": False, "partitioner": "murmur2_random"})
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._answers, name="sagalog-sink", daemon=True)

    async def __aenter__(self) -> Self:
        self._thread.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._ended.set()
        await asyncio.to_thread(self._thread.join)

    async def check(self, namespace: str, brokers: str) -> None:
        """Raises AgentError unless the brokers answer and have the namespace."""
        try:
            known = (await asyncio.to_thread(self._client.list_topics, timeout=CONNECT_SECONDS)).topics
        except KafkaException as e:
            raise AgentError(f"no broker answers at {brokers}: {e.args[0]}; check the addresses, and TLS and SASL in kafka={{...}}") from e
        if f"{namespace}.submissions" not in known:
            found = sorted(t.removesuffix(".submissions") for t in known if t.endswith(".submissions") and not t.startswith("dlq."))
            raise AgentError(f"the brokers at {brokers} have no namespace {namespace!r}, or may not show it; they have: {', '.join(found) or 'none'}")

    async def send(
        self, topic: str, key: str, value: bytes | None, headers: list[tuple[str, str | bytes | None]], partition: int = -1
    ) -> Message:
        """Returns when the brokers have acknowledged the record, and raises KafkaException if they have not."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Message] = loop.create_future()

        def answered(error: KafkaError | None, message: Message) -> None:
            loop.call_soon_threadsafe(settle, answer, error, message)

        while True:
            try:
                self._client.produce(topic, value, key, partition, on_delivery=answered, headers=headers)
                break
            except BufferError:  # the client's queue is full
                await asyncio.sleep(0.05)
        return await answer

    def _answers(self) -> None:
        while not self._ended.is_set():
            self._client.poll(POLL_SECONDS)


def settle(answer: asyncio.Future[Message], error: KafkaError | None, message: Message) -> None:
    if answer.done():
        return
    if error is None:
        answer.set_result(message)
    else:
        answer.set_exception(KafkaException(error))
