"""Single attempts, without brokers."""

import asyncio
import base64
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sagalog.agent
import sagalog.sealing
import sagalog.seldom
import sagalog.sink
from confluent_kafka import KafkaError, KafkaException
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from world import Finishes, Sink, execution, until, work

from sagalog import Attempt, Json, Refused, Retryable
from sagalog.errors import Unavailable
from sagalog.reader import Reader
from sagalog.request import Request, Until
from sagalog.sealing import Keys
from sagalog.seldom import client_line

SEALED = {"$sealed": "k1..AAAA"}


def request(**more: Any) -> Request:
    q = Request(work("t", **more), {})
    q.confirmed = Until(600)
    return q


async def ok(a: Attempt) -> Json:
    return {"done": True}


def attempt(do: Callable[[Attempt], Awaitable[Json]], keys: Any = None, **more: Any) -> dict[str, Any]:
    """Returns the report of an attempt."""
    sink = Sink()
    asyncio.run(execution(request(**more), do, sink, Finishes(), keys).run())
    (report,) = sink.sent
    return report


def test_a_start_that_comes_too_late_is_put_back() -> None:
    called: list[Attempt] = []

    async def do(a: Attempt) -> None:
        called.append(a)

    q, sink, reader = request(), Sink(), Finishes()
    q.confirmed = Until(-0.001)
    asyncio.run(execution(q, do, sink, reader).run())
    assert (called, sink.sent, reader.finished, reader.postponed) == ([], [], [], [q])


def test_progress_lets_other_tasks_run() -> None:
    """An operation that awaits nothing but its progress can be cancelled."""
    begun = asyncio.Event()

    async def do(a: Attempt) -> None:
        begun.set()
        for _ in range(100_000):
            await a.progress({"n": 1})
        raise AssertionError("it was not cancelled")

    async def main() -> list[dict[str, Any]]:
        q, sink = request(heartbeat="10m"), Sink()
        running = asyncio.create_task(execution(q, do, sink, Finishes()).run())
        await begun.wait()
        assert q.call is not None
        q.call.cancel()
        await running
        return sink.sent

    sent = asyncio.run(main())
    assert sent[-1]["error"]["code"] == "stopped"


@pytest.mark.parametrize(
    "asked, reported",
    [
        (timedelta(seconds=90), "90000ms"),
        (timedelta.max, "86400000ms"),
        (timedelta(days=400), "86400000ms"),
        (timedelta(seconds=-1), None),
        (timedelta(), None),
    ],
)
def test_a_service_cannot_stop_a_task_for_years(asked: timedelta, reported: str | None) -> None:
    async def do(a: Attempt) -> None:
        raise Retryable("busy", retry_after=asked)

    assert attempt(do).get("retry_after") == reported


class Broken:
    """Keys that cannot be used."""

    def __init__(self, error: Exception, opens: bool = False) -> None:
        self.error, self.opens = error, opens

    def open(self, value: Json) -> Json:
        if not self.opens:
            raise self.error
        return value

    def seal_like(self, like: Json, value: Json) -> Json:
        raise self.error


UNUSABLE = [PermissionError("seal.key"), ValueError("non-hexadecimal number"), KeyError("k1"), Unavailable("no key", code="no_key", effect="none")]


@pytest.mark.parametrize("error", UNUSABLE, ids=lambda e: type(e).__name__)
def test_what_is_not_opened_was_not_tried(error: Exception) -> None:
    """Such an attempt does not count, and the step that never began is not undone."""
    report = attempt(ok, Broken(error), input=SEALED)
    assert (report["error"]["class"], report["error"]["code"], report["effect"]) == ("unavailable", "no_key", "none")


def test_erased_content_is_not_tried_again() -> None:
    report = attempt(ok, Broken(sagalog.sealing.Erased("erased", code="erased", effect="none")), input=SEALED)
    assert (report["error"]["class"], report["error"]["code"], report["effect"]) == ("permanent", "erased", "none")


@pytest.mark.parametrize("error", UNUSABLE, ids=lambda e: type(e).__name__)
def test_what_is_not_sealed_is_still_reported(error: Exception) -> None:
    async def refuse(a: Attempt) -> None:
        raise Refused("secret", code="no", effect="done_unknown")

    report = attempt(ok, Broken(error, opens=True), input=SEALED)
    assert (report["error"]["class"], report["error"]["code"], report["effect"]) == ("permanent", "no_key", "done_unknown")
    report = attempt(refuse, Broken(error, opens=True), input=SEALED)
    assert report["error"] == {"class": "permanent", "code": "no", "message": "the message is sealed, in error.detail"}


def test_progress_that_is_not_sealed_is_sent_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sagalog.execution.PROGRESS_SHARE", 1e9)
    sent = asyncio.Event()

    class Once(Broken):
        def seal_like(self, like: Json, value: Json) -> Json:
            if self.error is None:
                return {"$sealed": f"k1..{len(str(value))}"}
            error, self.error = self.error, None  # type: ignore[assignment]
            raise error

    class Telling(Sink):
        async def send(self, topic: str, key: str, value: bytes | None, headers: object, partition: int = -1) -> None:
            await super().send(topic, key, value, headers, partition)
            sent.set()

    async def do(a: Attempt) -> None:
        await a.progress({"n": 1})
        await until("the progress is sent", sent.is_set)

    sink = Telling()
    asyncio.run(execution(request(heartbeat="10m", input=SEALED), do, sink, Finishes(), Once(OSError("seal.key"), opens=True)).run())
    assert [r["result"] for r in sink.sent] == ["progress", "completed"]


class Topic:
    """The topic of the keys while its leader is away."""

    asked = 0

    def get_watermark_offsets(self, *args: Any, **more: Any) -> tuple[int, int]:
        self.asked += 1
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    def close(self) -> None:
        pass


@pytest.fixture
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Keys:
    monkeypatch.setattr(sagalog.sealing, "REST_SECONDS", 600.0)
    monkeypatch.setattr(sagalog.sealing, "TRUSTED_SECONDS", 1200.0)
    (tmp_path / "seal.key").write_text("ab" * 32 + "\n")
    k = Keys("sagalog", str(tmp_path / "seal.key"), {"bootstrap.servers": "127.0.0.1:9"})
    k._consumer.close()
    k._consumer = Topic()  # type: ignore[assignment]
    (fingerprint,) = sagalog.sealing.key_lines(str(tmp_path / "seal.key"))
    bound = b"sagalog key 1\0sagalog\0k1\0c-17"
    wrapped = bytes(12) + AESGCM(b"\xab" * 32).encrypt(bytes(12), bytes(32), bound)
    k._namespace = "sagalog"
    k._wrapped["k1"] = {"subject": "c-17", "made": "2026", "with": fingerprint, "wrapped": base64.b64encode(wrapped).decode()}
    return k


def test_known_keys_need_no_broker_for_a_while(keys: Keys) -> None:
    """The question takes seconds while the leader is away, and all attempts would wait for it one after the other."""
    keys._read_at = time.monotonic() - 10
    opened = [keys.open(keys.seal_like(v, "secret")) for v in [{"$sealed": "k1.."}] * 10]
    assert opened == ["secret"] * 10
    with pytest.raises(Unavailable, match="cannot be read"):
        keys.open({"$sealed": "k2..AAAA"})
    assert keys._consumer.asked == 1  # type: ignore[attr-defined]


def test_keys_are_not_trusted_for_long(keys: Keys) -> None:
    keys._read_at = time.monotonic() - 2400
    for _ in range(3):
        with pytest.raises(Unavailable, match="erased"):
            keys.open({"$sealed": "k1..AAAA"})
    assert keys._consumer.asked == 1  # type: ignore[attr-defined]


def test_a_damaged_key_makes_nothing_permanent(keys: Keys) -> None:
    keys._read_at = time.monotonic()
    keys._wrapped["k1"] |= {"wrapped": "A" * 80}
    with pytest.raises(Unavailable, match="the data key k1 .* is damaged"):
        keys.open({"$sealed": "k1..AAAA"})


def test_an_effect_that_does_not_exist_is_a_fault() -> None:
    with pytest.raises(ValueError, match="effect is 'nonw'; it must be one of none, done_unknown, in_doubt"):
        Refused("no", effect="nonw")  # type: ignore[arg-type]


def test_a_stop_does_not_wait_for_brokers_that_are_gone(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """A commit of the client may never return."""
    monkeypatch.setattr(Reader, "run", lambda reader: threading.Event().wait())
    monkeypatch.setattr(sagalog.agent, "LEAVE_SECONDS", 0.1)

    async def run() -> None:
        agent = sagalog.Agent("card", brokers="127.0.0.1:1", grace=0.1)
        agent.operation()(ok)
        agent._sink = Sink()  # type: ignore[assignment]
        agent.stop()
        await agent._work()

    asyncio.run(asyncio.wait_for(run(), 120))
    assert "the group was not left" in caplog.text


def test_the_client_says_the_same_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sagalog.seldom, "_said", {})
    lines = [logging.makeLogRecord({"msg": "%s [%s] %s", "args": (kind, "producer-1", "Connection refused")}) for kind in ("FAIL", "FAIL", "ERROR", "FAIL")]
    assert [client_line(line) for line in lines] == [True, False, True, False]


UNENCODABLE = ("output_encoding", "in_doubt", "cannot be written as JSON")


@pytest.mark.parametrize(
    "returns, code, effect, why", [({1, 2}, *UNENCODABLE), (float("nan"), *UNENCODABLE), ("x" * (300 << 10), "output_limit", "done_unknown", "over the limit")]
)
def test_an_output_that_is_refused_is_logged(returns: Any, code: str, effect: str, why: str, caplog: pytest.LogCaptureFixture) -> None:
    async def do(a: Attempt) -> Json:
        return returns

    report = attempt(do)
    assert (report["error"]["class"], report["error"]["code"], report["effect"]) == ("permanent", code, effect)
    (line,) = caplog.messages
    assert why in line and "task 't', step 's'" in line


def test_a_sealed_input_without_a_key_is_logged_once(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(sagalog.seldom, "_said", {})
    for _ in range(3):
        assert attempt(ok, input=SEALED)["error"]["code"] == "no_key"
    (line,) = caplog.messages
    assert "seal_key_file" in line


def test_an_operation_that_exits_fails_and_the_agent_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    async def do(a: Attempt) -> None:
        sys.exit(3)

    report = attempt(do)
    assert (report["error"]["class"], report["error"]["message"], report["effect"]) == ("internal", "the operation called sys.exit(3)", "in_doubt")
    assert any("sys.exit(3)" in line and "task 't'" in line for line in caplog.messages)


class Plain:
    """Opens everything as the amount of ada, and seals nothing."""

    def open(self, value: Json) -> Json:
        return {**value, "input": "the amount of ada"}

    def seal_like(self, like: Json, value: Json) -> Json:
        return SEALED


@pytest.mark.parametrize("input", ["the amount of ada", SEALED, {"name": SEALED, "n": 1}])
@pytest.mark.parametrize("exits", [False, True])
def test_the_log_has_no_text_of_an_error_of_a_sealed_task(input: Json, exits: bool, caplog: pytest.LogCaptureFixture) -> None:
    sealed = input != "the amount of ada"

    async def do(a: Attempt) -> None:
        raise SystemExit(a.input) if exits else KeyError(a.input)

    report = attempt(do, Plain() if sealed else None, input=input)
    assert report["result"] == "failed"
    assert ("ada" in caplog.text) != sealed
    assert ("sys.exit(" if exits else "KeyError") in caplog.text
    assert "task 't'" in caplog.text


def test_an_undo_without_its_operation_may_be_a_typing_error(caplog: pytest.LogCaptureFixture) -> None:
    agent = sagalog.Agent("card", brokers="localhost:1")
    agent.undo("charge")(ok)
    agent.undo("chrage")(ok)
    agent.operation("charge")(ok)
    agent.stop()
    asyncio.run(agent.run())
    assert [r.getMessage() for r in caplog.records if "undoes" in r.getMessage()] == ["agent card undoes operation 'chrage' and does not do it: is that its name?"]


async def cancelled(a: Attempt) -> None:
    await asyncio.Event().wait()


async def refused(a: Attempt) -> None:
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        raise Refused("the run was given up", code="mine", detail={"n": 1}, effect="done_unknown") from None


@pytest.mark.parametrize("do, effect", [(cancelled, "in_doubt"), (refused, "done_unknown")])
@pytest.mark.parametrize("heartbeat", ["10m", ""])
def test_a_stop_during_a_long_attempt_is_reported(do: Callable[[Attempt], Awaitable[Json]], effect: str, heartbeat: str) -> None:
    """Delivered again, its request would have nothing left of its first heartbeat. Any other request is delivered again."""
    q, sink, reader, shown = request(heartbeat=heartbeat), Sink(), Finishes(), asyncio.Event()

    async def showing(a: Attempt) -> Json:
        for n in range(3):
            await a.progress({"n": n})
            await until("the first progress is sent", lambda: sink.sent or not heartbeat)
        shown.set()
        return await do(a)

    async def main() -> None:
        running = asyncio.create_task(execution(q, showing, sink, reader).run())
        await shown.wait()
        assert q.call is not None
        q.abandoned = True
        q.call.cancel()
        await running

    asyncio.run(main())
    if not heartbeat:
        assert (sink.sent, reader.finished) == ([], [])
        return
    first, last, report = sink.sent
    assert (first["progress"], last["result"], last["progress"]) == ({"n": 0}, "progress", {"n": 2}), "the newest progress goes before the report"
    assert (report["result"], report["error"]) == ("failed", {"class": "unavailable", "code": "stopped", "message": "the agent is stopping"})
    assert (report["effect"], reader.finished) == (effect, [q])


def test_a_report_of_a_stop_does_not_wait_long_for_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sagalog.execution.LAST_SECONDS", 0.01)

    class Away(Sink):
        async def send(self, topic: str, key: str, value: bytes | None, headers: object, partition: int = -1) -> None:
            await super().send(topic, key, value, headers, partition)
            if self.sent[-1]["result"] == "progress":
                await asyncio.Event().wait()

    q, sink = request(heartbeat="10m"), Away()

    async def do(a: Attempt) -> None:
        await a.progress({"n": 1})
        await cancelled(a)

    async def main() -> None:
        running = asyncio.create_task(execution(q, do, sink, Finishes()).run())
        await until("the progress is on its way", lambda: sink.sent)
        assert q.call is not None
        q.abandoned = True
        q.call.cancel()
        await running

    asyncio.run(asyncio.wait_for(main(), 120))
    assert sink.sent[-1]["error"]["code"] == "stopped"


def test_a_decorator_without_parentheses_is_a_fault() -> None:
    agent = sagalog.Agent("card", brokers="127.0.0.1:1")
    for decorator in (agent.operation, agent.undo):
        with pytest.raises(TypeError, match="parentheses"):
            decorator(ok)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["My Agent!", "", "Card", "a" * 65])
def test_an_agent_has_a_name_that_a_step_can_have(name: str) -> None:
    with pytest.raises(ValueError, match="cannot name an agent"):
        sagalog.Agent(name, brokers="127.0.0.1:1")


@pytest.mark.parametrize("name", ["Bad Name", "do", "undo", "a" * 65])
def test_an_operation_has_a_name_that_a_step_can_have(name: str) -> None:
    agent = sagalog.Agent("card", brokers="127.0.0.1:1")
    for decorator in (agent.operation, agent.undo):
        with pytest.raises(ValueError, match="cannot name an operation"):
            decorator(name)


def test_a_missing_key_file_and_a_wrong_setting_are_explained(tmp_path: Path) -> None:
    with pytest.raises(sagalog.AgentError, match="seal.key cannot be used.*No such file"):
        sagalog.Agent("card", brokers="127.0.0.1:1", seal_key_file=str(tmp_path / "seal.key"))
    with pytest.raises(sagalog.AgentError, match="no.such.setting"):
        sagalog.Producer("127.0.0.1:1", kafka={"no.such.setting": 1})


def test_an_agent_that_cannot_work_says_so_in_one_line() -> None:
    program = "import sagalog; sagalog.Agent('card', brokers='127.0.0.1:1').run_forever()"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=600)
    assert (ended.returncode, ended.stderr) == (1, "sagalog: agent card has no operation: decorate a function with @agent.operation()\n")


def test_a_stop_ends_the_connecting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client may wait longer than anybody."""
    asked, never = threading.Event(), threading.Event()

    class Silent:
        def __init__(self, config: dict[str, Any]) -> None:
            pass

        def poll(self, timeout: float) -> None:
            time.sleep(0.01)

        def list_topics(self, timeout: float) -> None:
            asked.set()
            never.wait()

    monkeypatch.setattr(sagalog.sink, "Client", Silent)

    async def run() -> None:
        agent = sagalog.Agent("card", brokers="127.0.0.1:1")
        agent.operation()(ok)
        running = asyncio.create_task(agent.run())
        await until("the client waits", asked.is_set)
        agent.stop()
        await running

    asyncio.run(asyncio.wait_for(run(), 600))


def test_a_blocked_event_loop_is_logged(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(sagalog.agent, "BLOCKED_SECONDS", 0.5)

    async def main() -> None:
        agent = sagalog.Agent("card", brokers="127.0.0.1:1")
        agent._sink = Sink()  # type: ignore[assignment]
        agent._reader = type("R", (), {"numbers": []})()
        announcing = asyncio.create_task(agent._announce())
        await until("a presence is sent", lambda: agent._sink.sent)  # type: ignore[attr-defined]
        time.sleep(2)
        await until("the block is logged", lambda: "the event loop was blocked" in caplog.text)
        announcing.cancel()

    asyncio.run(main())
