"""The life of one attempt: open, call, seal, report."""

import asyncio
import hashlib
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException

from sagalog.attempt import Attempt, Json
from sagalog.errors import Effect, Failure, Internal, Refused, Retryable, Unavailable
from sagalog.reader import Reader
from sagalog.request import Request, Until
from sagalog.seldom import say
from sagalog.sink import Sink
from sagalog.wire import DETAIL_BYTES, OUTPUT_BYTES, duration, encode, event, instant, one_line

if TYPE_CHECKING:
    from sagalog.agent import Agent

log = logging.getLogger("sagalog")

PROGRESS_SHARE = 3  # progress is sent at most once in this part of the heartbeat; less often, and one lost answer would end the attempt
RESEND_SECONDS = 0.2
LAST_SECONDS = 0.5  # how long the report of an attempt that a stop broke off waits for its last progress
RETRY_AFTER_MAX = timedelta(days=1)  # longer than any sensible deadline: a garbled answer of a service must not stop a task for years


class Unconfirmed(Exception):
    """So much time has passed since the commit that confirmed a request that another instance may have done and undone it."""


class Execution:
    def __init__(self, agent: "Agent", sink: Sink, reader: Reader, q: Request) -> None:
        self._agent, self._sink, self._reader, self._q = agent, sink, reader, q
        self._like: Json = None  # the input, if it came sealed as a whole
        self._secret = False  # something of the content came sealed, so an exception's text may quote it
        self._fresh = asyncio.Event()
        self._value: Json = None

    async def run(self) -> None:
        q, output, failure, began = self._q, None, None, instant()
        try:
            output = await self._do()
        except Unconfirmed:
            return self._reader.postpone(q)
        except Failure as e:
            failure = e
        except Exception as e:
            log.warning("an operation raised %s, so the attempt failed: %s", type(e).__name__, q, exc_info=None if self._secret else e)
            failure = Retryable(f"{type(e).__name__}: {e}", code=type(e).__name__)
        if failure is not None and q.abandoned:
            if not q.heartbeat:
                return  # neither reported nor finished, so it is delivered again
            # Delivered again, the request would have only its first heartbeat left, or none. So another attempt goes on, and this one does not count.
            failure = Unavailable("the agent is stopping", code="stopped", effect="in_doubt" if failure.effect == "in_doubt" else "done_unknown")
            if self._fresh.is_set():
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._send_latest(), LAST_SECONDS)
        if q.end.left() > 0:
            await self._report(began, output, failure)
        self._reader.finish(q)

    async def _do(self) -> Json:
        """Returns the output. After the end of the attempt the result does not matter."""
        q, w = self._q, self._q.work
        if q.unwanted:
            raise Unavailable("the attempt was stopped before it began", code="not_tried", effect="none")
        function = self._agent.operations.get((w.get("function", ""), w["operation"]))
        if function is None:
            text = f"this instance of agent {self._agent.name} does not offer {w['operation']} of operation {w.get('function', '')!r}"
            raise Unavailable(text, code="no_operation", effect="none")
        opened = await self._opened()
        attempt = Attempt(
            task=w["task"], run=w["run"], workflow=w["workflow"], version=w["version"], step=w["step"], undo=q.undo, number=w["attempt"],
            input=opened["input"], output=opened["output"], key=w["idempotency_key"], undoes=w.get("undoes", ""),
            deadline=datetime.fromtimestamp(q.cap.wall, UTC), last_progress=opened["progress"], repeated=not q.exclusive(),
            traceparent=q.traceparent, _show=self._show,
        )  # fmt: skip
        q.call = asyncio.ensure_future(self._called(function, attempt))
        if q.unwanted or q.abandoned:  # it came while the content was opened
            q.call.cancel()
        beats = asyncio.create_task(self._send_progress()) if q.heartbeat else None
        try:
            while not q.call.done() and (left := q.end.left()) > 0:
                await asyncio.wait({q.call}, timeout=left)
            if not q.call.done():
                log.warning("the time of an attempt is over, and it is cancelled: %s", q)
                q.call.cancel()
                await asyncio.wait({q.call})  # until it ends it counts against the concurrency
        finally:
            if beats is not None:
                beats.cancel()
            q.call.cancel()
        if q.call.cancelled():
            raise Retryable("the attempt was stopped", code="stopped")
        return await self._checked(q.call.result())

    async def _called(self, function: Callable[[Attempt], Awaitable[Json]], attempt: Attempt) -> Json:
        if self._q.confirmed.left() <= 0:
            raise Unconfirmed
        try:
            return await function(attempt)
        except SystemExit as e:  # it would end the agent, at each attempt of this task again
            log.error("an operation called sys.exit(%s), so the attempt failed: %s", "" if self._secret else e.code, self._q, exc_info=None if self._secret else e)
            raise Internal(f"the operation called sys.exit({e.code})", code="SystemExit") from e

    async def _opened(self) -> dict[str, Json]:
        from_work = {name: self._q.work.get(name) for name in ("input", "output", "progress")}
        if not any(b'{"$sealed":"' in encode(v) for v in from_work.values()):
            return from_work
        self._secret = True
        if self._agent.keys is None:
            text = "the input is sealed, and this agent has no key: give Agent the seal_key_file of the nodes"
            say("no key", "an attempt was not made: %s: %s", text, self._q, every=60)
            raise Unavailable(text, code="no_key", effect="none")
        from sagalog.sealing import Erased, sealed

        self._like = from_work["input"] if sealed(from_work["input"]) is not None else None
        try:
            opened: dict[str, Json] = await asyncio.to_thread(self._agent.keys.open, from_work)
        except Erased:
            raise
        except Exception as e:
            raise Unavailable(f"the content was not opened: {e or type(e).__name__}", code="no_key", effect="none") from e
        return opened

    async def _sealed(self, value: Json) -> Json:
        if self._like is None or value is None or self._agent.keys is None:
            return value
        return await asyncio.to_thread(self._agent.keys.seal_like, self._like, value)

    async def _checked(self, output: Json) -> Json:
        try:
            encode(output)
        except ValueError as e:
            raise self._useless(f"the output {e}", "output_encoding", "in_doubt") from e
        try:
            output = await self._sealed(output)
        except Exception as e:
            raise self._useless(f"the output was not sealed: {e or type(e).__name__}", e.code if isinstance(e, Failure) else "no_key") from e
        if (size := len(encode(output))) > OUTPUT_BYTES:
            raise self._useless(f"output is over the limit: {size} bytes, the limit is {OUTPUT_BYTES}", "output_limit")
        return output

    def _useless(self, text: str, code: str, effect: Effect = "done_unknown") -> Refused:
        log.warning("an attempt failed, because %s: %s", text, self._q)
        return Refused(text, code=code, effect=effect)

    async def _show(self, value: Json) -> None:
        self._value = value
        self._fresh.set()
        await asyncio.sleep(0)  # an operation that awaits nothing else would hold up the presence, and could not be cancelled

    async def _send_progress(self) -> None:
        while True:
            await self._fresh.wait()
            pause = Until(self._q.heartbeat / PROGRESS_SHARE)
            await self._send_latest()
            await asyncio.sleep(pause.left())

    async def _send_latest(self) -> None:
        """Sends the latest progress, and moves the end of the attempt if the brokers acknowledge it.

        The end counts from just before sending: the engine counts from when it judges the report, which is later.
        """
        q, until = self._q, Until(self._q.heartbeat)
        self._fresh.clear()
        try:
            await self._send({"result": "progress", "progress": await self._sealed(self._value)}, f"/{time.time_ns()}")
        except BaseException as e:  # not only of the brokers: the key file may be unreadable for a moment
            self._fresh.set()
            if not isinstance(e, Exception):
                raise
            return log.warning("progress was not delivered, and is sent again: %s: %s", q, e)
        if q.end.left() > 0 and until.left() > q.end.left():
            q.end = min(until, q.cap, key=Until.left)

    async def _report(self, began: str, output: Json, failure: Failure | None) -> None:
        q = self._q
        value: dict[str, Any] = {"result": "completed", "output": output, "started_at": began, "finished_at": instant()}
        if failure is not None:
            value |= {"result": "failed", "output": None, "error": await self._error(failure), "effect": await self._proven(failure.effect)}
            if failure.retry_after is not None and failure.retry_after > timedelta():
                value["retry_after"] = duration(min(failure.retry_after, RETRY_AFTER_MAX))
        elif not q.exclusive():
            value["effect"] = "in_doubt"
        while (left := q.end.left()) > 0:
            try:
                return await asyncio.wait_for(self._send(value), left)
            except TimeoutError:
                break
            except KafkaException as e:
                log.warning("a report was not delivered, and is sent again: %s: %s", q, e.args[0])
                await asyncio.sleep(RESEND_SECONDS)
        log.warning("a report was not acknowledged within the attempt's time: %s", q)

    async def _proven(self, effect: Effect) -> Effect:
        """The effect that is safe to report.

        Without effect a step is not undone, so such a request must never run again, here or elsewhere: a commit records that before the report
        leaves. If it cannot, or if another instance may have the request, the effect is in doubt.
        """
        if effect != "none" or not self._q.exclusive():
            return effect if self._q.exclusive() else "in_doubt"
        left = self._q.end.left()
        with suppress(TimeoutError):
            if await asyncio.wait_for(self._reader.finish_durably(self._q), left - min(left / 20, 0.25)):
                return "none"
        return "in_doubt"

    async def _error(self, f: Failure) -> dict[str, Any]:
        message = one_line(str(f)) or type(f).__name__
        try:
            detail = f.detail if len(encode(f.detail)) <= DETAIL_BYTES else None
        except ValueError:
            detail = one_line(repr(f.detail))
        if self._like is not None:  # the message is whatever a service answered, so it is sealed with the detail
            hidden = {"message": message} | ({"detail": detail} if detail is not None else {})
            message = "the message is sealed, in error.detail"
            try:
                detail = await self._sealed(hidden)
            except Exception as e:
                log.warning("the error of an attempt was not sealed, and is left out of its report: %s: %s", self._q, e)
                detail = None
        return {k: v for k, v in (("class", f.error_class), ("code", f.code), ("message", message), ("detail", detail)) if v not in ("", None)}

    async def _send(self, more: dict[str, Any], suffix: str = "") -> None:
        q, w = self._q, self._q.work
        about = {k: w.get(k) for k in ("task", "run", "step", "operation", "attempt", "ticket")}
        value = {k: v for k, v in {**about, "instance": self._agent.instance, **more}.items() if v is not None}
        # The same when the report is sent again.
        id = hashlib.sha1(encode([*q.id, self._agent.instance]), usedforsecurity=False).hexdigest()[:16] + suffix
        source = f"agent/{self._agent.name}/{self._agent.instance}"
        headers = event("sagalog.report", id, source, ce_traceparent=q.traceparent)
        await self._sink.send(f"{self._agent.namespace}.reports", w["task"], encode(value), headers, q.home)
