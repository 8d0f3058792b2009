"""What is written and read, without a broker."""

import asyncio
import random
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sagalog import Agent, Attempt, Producer
from sagalog.offsets import Partition, decode_done, encode_done
from sagalog.producer import moment
from sagalog.wire import one_line, seconds, timestamp


@pytest.mark.parametrize("text, value", [("500ms", 0.5), ("1h30m", 5400), ("10m0s", 600), ("1.5s", 1.5), ("", 0)])
def test_durations(text: str, value: float) -> None:
    assert seconds(text) == value


def test_what_is_no_duration() -> None:
    with pytest.raises(ValueError, match="'10'"):
        seconds("10")


def test_instants() -> None:
    assert timestamp("2026-11-21T14:00:00.250Z") == datetime(2026, 11, 21, 14, 0, 0, 250_000, UTC).timestamp()
    assert moment(datetime(2026, 11, 21, 14, tzinfo=UTC)) == "2026-11-21T14:00:00.000Z"
    assert moment(timedelta(minutes=10)) == "600000ms"
    assert moment("10m") == "10m"


def test_a_message_is_one_line() -> None:
    assert one_line("a\nb\x00c ") == "a b c"
    assert len(one_line("ü" * 2000).encode()) <= 1024


def test_the_example_of_the_format() -> None:
    assert decode_done(10, "sagalog-done-1 3+2,1+40") == [(13, 15), (16, 56)]
    assert encode_done(10, [(13, 15), (16, 56)]) == "sagalog-done-1 3+2,1+40"
    for foreign in ("", None, "member-1", "sagalog-done-1 ", "sagalog-done-1 1", "sagalog-done-1 -1+2", "sagalog-done-1 1+0", "sagalog-done-1 x+2"):
        assert decode_done(5, foreign) == []


@pytest.mark.parametrize("seed", range(200))
def test_no_commit_passes_an_unfinished_request(seed: int) -> None:
    """Requests are read and finished in any order, with gaps, and instances die. What a commit covers is exactly what was finished."""
    r = random.Random(seed)
    p = Partition(0, 0, [], 0)
    unfinished: set[int] = set()
    finished: set[int] = set()
    end, until = 0, time.time() + 1000
    for _ in range(60):
        match r.choice(("read", "read", "finish", "commit", "die")):
            case "read":
                end += r.randint(1, 3)
                if p.read(end - 1, until):
                    assert end - 1 not in finished
                    unfinished.add(end - 1)
            case "finish" if unfinished:
                offset = r.choice(sorted(unfinished))
                unfinished.discard(offset)
                finished.add(offset)
                p.finish(offset)
            case "commit":
                p.committed = p.due(time.time())
                assert all(p.covers(o) for o in finished)
                assert not any(p.covers(o) for o in unfinished)
            case "die" if p.committed is not None:
                low, text = p.committed
                covered = {o for o in finished if p.covers(o)}
                p = Partition(0, low, decode_done(low, text), end)
                p.committed = (low, text)
                for o in range(low, end):
                    if o in unfinished | finished:
                        assert p.read(o, until) is (o not in covered)
                        if o not in covered:
                            p.finish(o) if o in finished else None
            case _:
                pass


def test_an_expired_request_holds_nothing_back() -> None:
    p = Partition(0, 0, [], 0)
    p.read(0, 100.0)
    p.read(1, 900.0)
    assert p.due(50.0) == (0, "")
    assert p.due(500.0) == (1, "")


def test_an_attempt_can_be_made_for_a_test() -> None:
    a = Attempt(input={"amount": 20}, key="k")
    asyncio.run(a.progress({"done": 1}))
    assert (a.input["amount"], a.undo, a.number, a.shown) == (20, False, 1, [{"done": 1}])
    with pytest.raises(ValueError, match="16384 are allowed"):
        asyncio.run(a.progress("x" * (16 << 10)))


@pytest.mark.parametrize(
    "given, why",
    [
        ({"workflow": ""}, "cannot name a workflow"),
        ({"deadline": "soon"}, "'soon' is neither"),
        ({"deadline": ""}, "'' is neither"),
        ({"not_before": "10"}, "'10' is neither"),
        ({"deadline": timedelta()}, "'0ms' is neither"),
        ({"labels": {"a": 1}}, "label 'a' is 1"),
        ({"labels": {"a:b": "1"}}, "without a colon"),
        ({"labels": {"a": "x" * 257}}, "up to 256 bytes"),
        ({"labels": {str(i): "" for i in range(33)}}, "at most 32"),
        ({"input": "x" * (1 << 20)}, "takes at most 1048576"),
    ],
)
def test_what_no_engine_accepts_is_not_sent(given: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        asyncio.run(Producer("127.0.0.1:1").submit(**{"workflow": "order", **given}))


@pytest.mark.parametrize("given", ["10m", "+1h30m", ".5s", "2μs", "2026-11-21T14:00:00Z", "2026-11-21T14:00:00.123456789+02:00"])
def test_times_that_an_engine_accepts(given: str) -> None:
    assert moment(given) == given


def test_no_brokers_are_a_fault() -> None:
    for empty in ("", " , "):
        for brokers in (empty, [empty]):
            with pytest.raises(ValueError, match="brokers is empty"):
                Agent("card", brokers=brokers)
