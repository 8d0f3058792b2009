"""Durations, instants and JSON as they are on the wire."""

import json
import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from confluent_kafka import Message

# The limits of a task's values (events/FORMAT.md).
OUTPUT_BYTES = 256 << 10
PROGRESS_BYTES = 16 << 10
DETAIL_BYTES = 16 << 10
SUBMISSION_BYTES = 1 << 20  # the most that a namespace may be set to take
MESSAGE_BYTES = 1024

NAME = re.compile("[a-z][a-z0-9_-]{0,63}")  # of an agent, an operation or a workflow
NAME_RULE = "use a lower-case letter, followed by up to 63 of a-z, 0-9, _ and -"

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)")


def seconds(text: str) -> float:
    """Reads a duration such as 1h30m; an empty one is 0."""
    if _PART.sub("", text):
        raise ValueError(f"{text!r} is not a duration such as 500ms or 1h30m")
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))


def duration(d: timedelta) -> str:
    return f"{d // timedelta(milliseconds=1)}ms"


def timestamp(text: str) -> float:
    """Reads an instant as seconds since 1970; an empty one is 0."""
    return datetime.fromisoformat(text).timestamp() if text else 0.0


def instant(at: datetime | None = None) -> str:
    return (at or datetime.now(UTC)).astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def encode(value: Any) -> bytes:
    """Raises ValueError for what JSON cannot hold."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8", "replace")
    except (TypeError, ValueError) as e:
        raise ValueError(f"cannot be written as JSON: {e}") from e


def one_line(text: str) -> str:
    """Makes any text fit for a log line: no control characters, bounded."""
    line = "".join(c if c.isprintable() else " " for c in text).strip().encode("utf-8", "replace")
    return line[:MESSAGE_BYTES].decode("utf-8", "ignore")


def headers(m: Message) -> dict[str, str]:
    """If a header occurs twice, the last one counts."""
    return {k: v.decode("utf-8", "replace") if isinstance(v, bytes) else v or "" for k, v in dict(m.headers() or ()).items()}


def event(kind: str, id: str, source: str, **more: str) -> list[tuple[str, str | bytes | None]]:
    """The headers of a CloudEvent."""
    given = {"ce_specversion": "1.0", "ce_id": id, "ce_source": source, "ce_type": kind, "ce_time": instant(), **more}
    return [(k, v.encode()) for k, v in given.items() if v]


def broker_list(brokers: str | Iterable[str]) -> str:
    joined = brokers if isinstance(brokers, str) else ",".join(brokers)
    if not joined.strip(" ,"):
        raise ValueError("brokers is empty; give addresses such as k1:9092,k2:9092")
    return joined
