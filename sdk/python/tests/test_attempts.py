"""The promises of an agent: time, progress, stops, and what it says of failures."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from engine import Engine, Process, eventually

from sagalog import Producer


def step(operation: str, more: str = "complete_within: 30m") -> str:
    return f"workflow: {operation}\nsteps:\n  s: {{agent: worker, operation: {operation}, {more}}}\n"


def submit(engine: Engine, workflow: str, id: str, input: Any = None) -> None:
    async def one() -> None:
        async with Producer(engine.kafka) as p:
            await p.submit(workflow, id=id, input=input)

    asyncio.run(one())


def states(task: dict[str, Any]) -> tuple[str, Any]:
    return task["state"], task["steps"][0].get("output")


@pytest.fixture(scope="module", autouse=True)
def topic(engine: Engine) -> None:
    """A node creates the topic of the agent when a step first waits for it."""
    engine.apply("default", "workflow: default\nsteps: {s: {agent: worker}}\n")
    agent = engine.agent("worker.py")
    submit(engine, "default", "first")
    engine.ended("first")
    assert agent.end() == 0, agent.said()


def test_a_step_without_operation(engine: Engine, processes: list[Process]) -> None:
    processes.append(engine.agent("worker.py"))
    given = {"text": 'Zürich ✓ "\\\u2028', "big": 2**70, "list": [1.5, None, True]}
    submit(engine, "default", "Zürich/3 ✓", given)
    assert states(engine.ended("Zürich/3 ✓")) == ("processed", {"input": given, "undo": False})


def test_an_attempt_ends_at_its_complete_by_time(engine: Engine, processes: list[Process]) -> None:
    engine.apply("late", step("late", "complete_within: 5s, retry: {attempts: 50, backoff: 100ms}"))
    agent = engine.agent("worker.py")
    processes.append(agent)
    submit(engine, "late", "late-1")
    assert engine.ended("late-1")["state"] == "processed"
    cancelled = int(agent.said().partition(": cancelled")[0].split()[-1])
    assert cancelled in [f["attempt"] for f in engine.facts("late-1", "Timeout", "s")]
    assert not engine.facts("late-1", "StepFailed", "s"), "after the time, nothing is reported"


def test_progress_keeps_an_attempt_alive(engine: Engine, processes: list[Process]) -> None:
    engine.apply("long", step("long", "heartbeat: 5s, complete_within: 30m, retry: {attempts: 50, backoff: 100ms}"))
    processes.append(engine.agent("worker.py"))
    submit(engine, "long", "long-1", {"seconds": 16})
    task = engine.ended("long-1")
    assert task["state"] == "processed"
    assert task["steps"][0]["output"]["gone"] >= 16, "longer than three heartbeats"
    assert engine.facts("long-1", "StepProgressed", "s")


def test_a_silent_attempt_ends_and_the_next_continues(engine: Engine, processes: list[Process]) -> None:
    engine.apply("silent", step("silent", "heartbeat: 5s, complete_within: 30m, retry: {attempts: 50, backoff: 100ms}"))
    agent = engine.agent("worker.py")
    processes.append(agent)
    submit(engine, "silent", "silent-1")
    assert states(engine.ended("silent-1")) == ("processed", {"continued": {"done": 3}})
    assert ": cancelled" in agent.said()


def test_a_stop_finishes_what_runs(engine: Engine, processes: list[Process], tmp_path: Path) -> None:
    engine.apply("held", step("held"))
    agent = engine.agent("worker.py", GRACE="600", INSTANCE="finishes")
    processes.append(agent)
    submit(engine, "held", "held-1", {"file": str(tmp_path / "go")})
    eventually("the attempt runs", lambda: "held-1 s 1: begun" in agent.said())
    agent.popen.terminate()
    eventually("it accepts no work", lambda: engine.instances().get("finishes", {}).get("capacity") == 0)
    (tmp_path / "go").touch()
    assert agent.popen.wait(300) == 0, agent.said()
    assert states(engine.ended("held-1")) == ("processed", {"by": "finishes"})
    assert [f["attempt"] for f in engine.facts("held-1", "StepStarted", "s")] == [1]


def test_a_stop_gives_back_what_does_not_end(engine: Engine, processes: list[Process], tmp_path: Path) -> None:
    engine.apply("held", step("held"))
    first = engine.agent("worker.py", GRACE="0.2", INSTANCE="first")
    processes.append(first)
    submit(engine, "held", "held-2", {"file": str(tmp_path / "go")})
    eventually("the attempt runs", lambda: "held-2 s 1: begun" in first.said())
    assert first.end() == 0, first.said()
    assert "held-2 s 1: done" not in first.said()
    second = engine.agent("worker.py", INSTANCE="second")
    processes.append(second)
    eventually("the same attempt runs elsewhere", lambda: "held-2 s 1: begun" in second.said())
    (tmp_path / "go").touch()
    assert states(engine.ended("held-2")) == ("processed", {"by": "second"})
    assert [f["attempt"] for f in engine.facts("held-2", "StepStarted", "s")] == [1], "it is the same attempt"


def test_a_stop_during_a_long_attempt_does_not_count(engine: Engine, processes: list[Process], tmp_path: Path) -> None:
    """The second attempt fails on its own. If the first one counted, it would be the last."""
    engine.apply("stopping", step("stopping", "heartbeat: 2m, complete_within: 30m, retry: {attempts: 2, backoff: 100ms, then: undo}"))
    first = engine.agent("worker.py", GRACE="10", INSTANCE="stopping-0")
    processes.append(first)
    submit(engine, "stopping", "stopping-1")
    eventually("its progress is in the log", lambda: engine.facts("stopping-1", "StepProgressed", "s"))
    assert first.end() == 0, first.said()
    processes.append(engine.agent("worker.py", INSTANCE="stopping-1"))
    assert states(engine.ended("stopping-1")) == ("processed", {"attempt": 3, "from": {"done": 1}})
    stopped, failed = engine.facts("stopping-1", "StepFailed", "s")
    assert (stopped["error"]["code"], stopped["attempt"], failed["error"]["code"], failed["attempt"]) == ("stopped", 1, "broken", 2)


def test_a_cancel_stops_the_attempt_and_undoes_it(engine: Engine, processes: list[Process]) -> None:
    engine.apply("wanted", step("wanted", "complete_within: 30m, undo: {}"))
    agent = engine.agent("worker.py")
    processes.append(agent)
    submit(engine, "wanted", "wanted-1")
    eventually("the attempt runs", lambda: "wanted-1 s 1: begun" in agent.said())

    async def cancel() -> None:
        async with Producer(engine.kafka) as p:
            await p.cancel("wanted-1", reason="a test", by="ada")

    asyncio.run(cancel())
    assert engine.ended("wanted-1")["state"] == "undone", "an attempt that is over need not wait for its time"
    assert "wanted-1 s 1: cancelled" in agent.said()
    assert "wanted-1 s 1: undone, output None" in agent.said()


def test_of_two_processes_with_one_name_one_ends(engine: Engine, processes: list[Process]) -> None:
    """The members of the group are static: the next process with the name takes its partitions over, without waiting for the end of a session."""
    for _ in range(2):
        processes.append(engine.agent("worker.py", INSTANCE="twin"))
        engine.ready("twin")
    ended: Process = eventually("one has ended", lambda: next((p for p in processes if p.popen.poll() is not None), None))
    assert "sagalog: another process uses the instance name twin: give each its own" in ended.said()


@pytest.mark.parametrize(
    "how, kind, code, effect",
    [
        ("raise", "retryable", "KeyError", "in_doubt"),
        ("output", "permanent", "output_encoding", "in_doubt"),
        ("large", "permanent", "output_limit", "done_unknown"),
    ],
)
def test_what_a_failure_says(engine: Engine, processes: list[Process], how: str, kind: str, code: str, effect: str) -> None:
    engine.apply("broken", step("broken", "complete_within: 3m, retry: {attempts: 1, then: park}"))
    processes.append(engine.agent("worker.py", INSTANCE=how))
    engine.ready(how)
    submit(engine, "broken", f"broken-{how}", {"how": how})
    assert engine.ended(f"broken-{how}")["state"] == "error"
    (failed,) = engine.facts(f"broken-{how}", "StepFailed", "s")
    assert (failed["error"]["class"], failed["error"]["code"], failed.get("effect", "in_doubt")) == (kind, code, effect)
