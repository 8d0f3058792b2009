"""The attempt that an operation makes."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sagalog.wire import PROGRESS_BYTES, encode

Json = Any  # None, bool, int, float, str, list or dict


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One attempt of a step, or of its undo. A test may make one: Attempt(input={"amount": 20})."""

    task: str = "task"
    run: int = 1
    workflow: str = "workflow"
    version: int = 1
    step: str = "step"
    undo: bool = False
    """Whether the step is to be undone."""
    number: int = 1
    input: Json = None
    output: Json = None
    """Of an undo: the output of the step; None if the outcome of the step is unknown."""
    key: str = ""
    """The idempotency key: the same in all attempts of this operation of this step. Pass it to the service, so that it drops duplicates."""
    undoes: str = ""
    """Of an undo: the key of what it undoes. Pass it on too, so that the service can refuse the do if it arrives after its undo."""
    deadline: datetime = datetime.max.replace(tzinfo=UTC)
    """When the attempt is cancelled. If the step has a heartbeat this is the end in any case: without progress it comes sooner."""
    last_progress: Json = None
    """The last progress of the earlier attempts of the step."""
    repeated: bool = False
    """Another instance may have received the same request. An undo may then find nothing left to undo."""
    traceparent: str = ""
    """The W3C trace context to pass on."""
    shown: list[Json] = field(default_factory=list, compare=False)
    """In an attempt that a test made: the values that were given to progress."""
    _show: Callable[[Json], Awaitable[None]] | None = field(default=None, repr=False, compare=False)

    async def progress(self, value: Json) -> None:
        """Shows that the attempt goes on, and how far it has come.

        An attempt of a step with a heartbeat ends one heartbeat after its last acknowledged progress. Call this as often as you like: of the calls within a
        third of the heartbeat only the last one is sent. The value may have up to 16 KiB of JSON.
        """
        if (size := len(encode(value))) > PROGRESS_BYTES:
            raise ValueError(f"progress has {size} bytes; {PROGRESS_BYTES} are allowed")
        if self._show is None:
            self.shown.append(value)
        else:
            await self._show(value)
