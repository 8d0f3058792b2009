"""Submits tasks, and sends signals and cancels."""

import re
import uuid
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Self

from confluent_kafka import KafkaError, KafkaException, Message

from sagalog.attempt import Json
from sagalog.errors import NotAcknowledged, Rejected
from sagalog.sink import Sink
from sagalog.wire import NAME, NAME_RULE, SUBMISSION_BYTES, broker_list, duration, encode, event, instant, seconds

CONTROL = re.compile("[\0-\x1f\x7f-\x9f]")

# What the brokers, or the client for them, answer to a record that they will never take.
FINAL = {
    KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE, KafkaError.INVALID_RECORD, KafkaError.POLICY_VIOLATION,
    KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED,
}  # fmt: skip


@dataclass(frozen=True)
class Receipt:
    """Where a record is, in <ns>.submissions. It is durable, which does not mean accepted: the engine judges it later, and a rejected one becomes a dead letter."""

    id: str
    """The ID of the task."""
    partition: int
    offset: int
    request: str = ""
    """The ID of a signal or a cancel."""


class Producer:
    """async with Producer("k1:9092") as p: await p.submit("order", id="order-7", input={...})

    kafka has further settings of librdkafka, such as those for TLS and SASL.
    """

    def __init__(self, brokers: str | Iterable[str], *, namespace: str = "sagalog", kafka: Mapping[str, Any] | None = None, timeout: float = 30.0) -> None:
        self._brokers, self._namespace, self._timeout = broker_list(brokers), namespace, timeout
        self._sink = Sink({"bootstrap.servers": self._brokers, "message.timeout.ms": int(timeout * 1000), **(kafka or {})})

    async def __aenter__(self) -> Self:
        await self._sink.__aenter__()
        try:
            await self._sink.check(self._namespace, self._brokers, self._timeout)
        except BaseException:
            await self._sink.__aexit__(None, None, None)
            raise
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self._sink.__aexit__(kind, error, trace)

    async def submit(
        self,
        workflow: str,
        *,
        id: str | None = None,
        input: Json = None,
        version: int | None = None,
        priority: int = 0,
        labels: Mapping[str, str] | None = None,
        deadline: timedelta | datetime | str | None = None,
        not_before: timedelta | datetime | str | None = None,
        reply_to: str | None = None,
        reply_key: str | None = None,
    ) -> Receipt:
        """Returns when the submission is durable. Submitting the same ID again changes nothing, so repeat it if an error leaves that open.

        Choose an ID that follows from the business, such as that of the order: only then is a repeat recognised after a crash.
        Raises ValueError for what no engine accepts.
        """
        id = str(uuid.uuid4()) if id is None else id
        if id in ("", ".", "..") or len(id.encode()) > 255 or CONTROL.search(id):
            raise ValueError(f"{id!r} cannot be the ID of a task, which has 1 to 255 bytes without control characters, and is not . or ..; without an ID, one is made")
        if not NAME.fullmatch(workflow):
            raise ValueError(f"{workflow!r} cannot name a workflow: {NAME_RULE}")
        if priority not in range(-1000, 1001):
            raise ValueError(f"priority is {priority}; it must be from -1000 to 1000")
        check_labels(labels or {})
        given = {
            "id": id, "workflow": workflow, "version": version, "input": input, "priority": priority or None, "labels": dict(labels or {}) or None,
            "deadline": moment(deadline), "not_before": moment(not_before), "reply_to": reply_to, "reply_key": reply_key,
        }  # fmt: skip
        value = {k: v for k, v in given.items() if v is not None}
        if (size := len(encode(value))) > SUBMISSION_BYTES:
            raise ValueError(f"the submission has {size} bytes; a namespace takes at most {SUBMISSION_BYTES}, and half of that by default")
        m = await self._send(id, value, "sagalog.submission", str(uuid.uuid4()), id)
        return receipt(m, id)

    async def signal(self, task: str, name: str, payload: Json = None, *, id: str | None = None, by: str = "") -> Receipt:
        """Ends the wait of a step for the signal, now or later. A second one with the same id changes nothing: repeat it with the id of the error."""
        return await self._request("signal", task, id, by, signal=name, payload=payload)

    async def cancel(self, task: str, *, reason: str = "", id: str | None = None, by: str = "") -> Receipt:
        """Asks that the task be undone. It is refused once the pivot has begun."""
        return await self._request("cancel", task, id, by, reason=reason)

    async def _request(self, kind: str, task: str, id: str | None, by: str, **more: Json) -> Receipt:
        id = id or str(uuid.uuid4())
        value = {k: v for k, v in {"id": id, "kind": kind, "task": task, "by": by, **more}.items() if v not in ("", None)}
        return receipt(await self._send(task, value, f"sagalog.request.{kind}", id, id), task, id)

    async def _send(self, task: str, value: dict[str, Any], kind: str, event_id: str, id: str) -> Message:
        """The engine takes signals and cancels from the submissions too, so a producer need not be allowed to write reports."""
        topic = f"{self._namespace}.submissions"
        try:
            return await self._sink.send(topic, task, encode(value), event(kind, event_id, "sagalog-python", ce_subject=task))
        except KafkaException as e:
            error: KafkaError = e.args[0]
            if error.code() in FINAL:
                text = f"the brokers refuse {kind} of task {task!r} in {topic}: {error}; make it smaller, or see sagalog generate acls --role producer"
                raise Rejected(text, id=id) from e
            raise NotAcknowledged(f"the brokers did not acknowledge {kind} of task {task!r}: {error}; send it again with the ID {id!r}", id=id) from e


def receipt(m: Message, task: str, request: str = "") -> Receipt:
    partition, offset = m.partition(), m.offset()
    assert partition is not None and offset is not None
    return Receipt(task, partition, offset, request)


def moment(of: timedelta | datetime | str | None) -> str | None:
    """A duration or an instant as text. A datetime without a zone is local time."""
    if of is None:
        return None
    if isinstance(of, datetime):
        return instant(of)
    text = duration(of) if isinstance(of, timedelta) else of
    try:
        if seconds(text.lstrip("+")) > 0:
            return text
    except ValueError:
        with suppress(ValueError):
            datetime.fromisoformat(text)
            return text
    raise ValueError(f"{text!r} is neither a positive duration such as 10m nor an instant such as 2026-11-21T14:00:00Z")


def check_labels(labels: Mapping[str, str]) -> None:
    if len(labels) > 32:
        raise ValueError(f"a task has at most 32 labels, and these are {len(labels)}")
    for key, value in labels.items():
        if not isinstance(value, str) or not 0 < len(key.encode()) <= 64 or len(value.encode()) > 256 or set(key) & {":", "\0"}:
            raise ValueError(f"label {key!r} is {value!r}; a key has 1 to 64 bytes without a colon, and a value is a text of up to 256 bytes")
