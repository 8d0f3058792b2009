"""Writes records, and awaits the answer of the brokers."""

import asyncio
import threading
from types import TracebackType
from typing import Any, Self

from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka import Producer as Client

from sagalog.errors import AgentError
from sagalog.seldom import client_log
from sagalog.threads import detached, settle

POLL_SECONDS = 0.2
CONNECT_SECONDS = 20.0


class Sink:
    """One Kafka producer, and the thread that receives its answers."""

    def __init__(self, config: dict[str, Any]) -> None:
        # murmur2 puts a task's records into its home partition. Repeats of a record change nothing, so the producer need not be idempotent; one that
        # is ends for good when brokers forget its sequence numbers.
        given = {"linger.ms": 1, "enable.metrics.push": False, "logger": client_log, **config, "acks": "all", "enable.idempotence": False, "partitioner": "murmur2_random"}
        try:
            self._client = Client(given)
        except KafkaException as e:
            raise AgentError(f"the Kafka client refuses its settings: {e.args[0].str()}; correct kafka={{...}}") from None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._answers, name="sagalog-sink", daemon=True)

    async def __aenter__(self) -> Self:
        self._thread.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._ended.set()
        await asyncio.to_thread(self._thread.join)

    async def check(self, namespace: str, brokers: str, timeout: float = CONNECT_SECONDS) -> None:
        """Raises AgentError unless the brokers answer and have the namespace."""
        try:
            known = (await detached(lambda: self._client.list_topics(timeout=timeout), "sagalog-connect")).topics
        except KafkaException as e:
            raise AgentError(f"no broker answers at {brokers}: {e.args[0]}; check the addresses, and TLS and SASL in kafka={{...}}") from None
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
            loop.call_soon_threadsafe(settle, answer, message, KafkaException(error) if error else None)

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
