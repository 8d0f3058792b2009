"""The agent worker: one operation for each way in which an attempt can go. What it notes goes to standard output."""

import asyncio
import os
import time

import sagalog
from sagalog import Attempt, Json, Refused, Retryable

agent = sagalog.Agent("worker", brokers=os.environ["BROKERS"], instance=os.environ.get("INSTANCE"), grace=float(os.environ.get("GRACE", "2")))


called: set[str] = set()


def note(a: Attempt, what: str) -> None:
    print(f"{a.task} {a.step} {a.number}: {what}", flush=True)


async def forever(a: Attempt) -> None:
    note(a, "begun")
    try:
        await asyncio.Event().wait()
    finally:
        note(a, "cancelled")


@agent.operation()
async def default(a: Attempt) -> Json:
    """The operation of steps that name none."""
    return {"input": a.input, "undo": a.undo}


@agent.operation("late")
async def late(a: Attempt) -> Json:
    """Hangs in its first call."""
    if a.task not in called:
        called.add(a.task)
        await forever(a)
    return {"attempt": a.number}


@agent.operation("long")
async def long(a: Attempt) -> Json:
    """Goes on for longer than a heartbeat."""
    began = time.monotonic()
    while (gone := time.monotonic() - began) < a.input["seconds"]:
        await a.progress({"gone": gone})
        await asyncio.sleep(0.2)
    return {"gone": gone}


@agent.operation("silent")
async def silent(a: Attempt) -> Json:
    if a.last_progress is None:
        await a.progress({"done": 3})
        await forever(a)
    return {"continued": a.last_progress}


@agent.operation("stopping")
async def stopping(a: Attempt) -> Json:
    """Waits for a stop, then fails, then succeeds."""
    if a.last_progress is None:
        await a.progress({"done": 1})
        await forever(a)
    if a.number == 2:
        raise Retryable("broken", code="broken")
    return {"attempt": a.number, "from": a.last_progress}


@agent.operation("held")
async def held(a: Attempt) -> Json:
    """Runs until the file is there."""
    note(a, "begun")
    while not os.path.exists(a.input["file"]):
        await asyncio.sleep(0.05)
    note(a, "done")
    return {"by": agent.instance}


@agent.operation("wanted")
async def wanted(a: Attempt) -> Json:
    try:
        await forever(a)
    except asyncio.CancelledError:
        raise Refused("nobody wants it any more", code="unwanted", effect="done_unknown") from None


@agent.undo("wanted")
async def unwanted(a: Attempt) -> Json:
    note(a, f"undone, output {a.output}")
    return None


@agent.operation("broken")
async def broken(a: Attempt) -> Json:
    if a.input["how"] == "raise":
        raise KeyError("no such thing")
    return {"set": {1, 2}} if a.input["how"] == "output" else "x" * (300 << 10)


agent.run_forever()
