"""A work request while the agent holds it."""

import asyncio
import json
import time
from typing import Any

from sagalog.offsets import Partition
from sagalog.wire import seconds, timestamp

AttemptID = tuple[str, str, int, str, str, int]
StepID = tuple[str, str, int, str]


class Until:
    """An instant by two clocks: the steady one may stand still while the machine sleeps, and the other one may be set back."""

    def __init__(self, left: float) -> None:
        self.wall, self.steady = time.time() + left, time.monotonic() + left

    def left(self) -> float:
        return min(self.wall - time.time(), self.steady - time.monotonic())


class Request:
    """places, and until by the wall clock, are the reading thread's; the rest belongs to the event loop once the request has begun."""

    def __init__(self, value: bytes, headers: dict[str, str]) -> None:
        """Raises an error if the value is no work request."""
        w: dict[str, Any] = json.loads(value)
        self.work = w
        self.step: StepID = (w["task"], w.get("ticket", ""), w["run"], w["step"])
        self.id: AttemptID = (*self.step, w["operation"], w["attempt"])
        self.undo = w["operation"] == "undo"
        self.home: int = w.get("home", 0)
        self.traceparent = headers.get("ce_traceparent", "")
        self.heartbeat = seconds(w.get("heartbeat", ""))
        now, by = time.time(), timestamp(w["complete_by"])
        decided = timestamp(headers.get("ce_time", ""))
        # If this clock is behind the owner's, the request takes no longer than it has time.
        within = seconds(w.get("complete_within", "")) or (by - decided if decided else by - now)
        left = min(by - now, within)
        self.end = Until(left)
        # The end in any case, which progress cannot move.
        self.cap = Until(left + max(0.0, timestamp(w.get("cap_by", "")) - by) if self.heartbeat else left)
        self.places: list[tuple[Partition, int]] = []
        self.unwanted = self.abandoned = False
        self.confirmed = Until(0)  # how long the last commit shows well enough that the places are ours
        self.call: asyncio.Task[Any] | None = None

    def exclusive(self) -> bool:
        """Whether no other instance can have received the request."""
        return all(p.owned and offset >= p.shared for p, offset in self.places)

    def __str__(self) -> str:
        w = self.work
        return f"task {w['task']!r}, step {w['step']!r}, {w['operation']}, attempt {w['attempt']}"
