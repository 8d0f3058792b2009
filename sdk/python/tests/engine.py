"""Starts the real program and agents as processes, and waits for what they do.

No bound here is shorter than two minutes: a busy machine is no fault.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PACKAGE = HERE.parent
REPOSITORY = PACKAGE.parent.parent
WAIT_SECONDS = int(os.environ.get("SAGALOG_SDK_WAIT", "300"))
ENDED = {"processed", "undone", "error", "terminated"}


def program() -> str:
    found = os.environ.get("SAGALOG_BIN") or shutil.which("sagalog")
    assert found, "SAGALOG_BIN must name the program; sdk/python/check builds it and runs these tests"
    return found


def eventually(what: str, happened: Callable[[], Any]) -> Any:
    end = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < end:
        if result := happened():
            return result
        time.sleep(0.05)
    raise AssertionError(f"not within {WAIT_SECONDS} s: {what}")


class Process:
    """A process whose output goes to a file, and which ends with the test."""

    def __init__(self, args: list[str], log: Path, env: dict[str, str] | None = None, cwd: Path | None = None) -> None:
        self.log = log
        with log.open("ab") as out:
            self.popen = subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env={**os.environ, **(env or {})}, cwd=cwd)

    def said(self) -> str:
        return self.log.read_text()

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        if self.popen.poll() is None:
            self.popen.send_signal(how)
        return self.popen.wait(WAIT_SECONDS)


class Engine:
    """`sagalog dev` with the embedded broker, or `sagalog serve` in front of brokers."""

    def __init__(self, dir: Path, *more: str, brokers: str = "") -> None:
        self.dir, self.kafka = dir, brokers
        dir.mkdir(parents=True, exist_ok=True)
        data = dir / "data"
        at = ["--data", str(data), "--http", "127.0.0.1:0"]
        args = ["serve", "--brokers", brokers, *at] if brokers else ["dev", "--demo", "none", "--kafka", "127.0.0.1:0", *at]
        self.process = Process([program(), *args, *more], dir / "engine.log")
        try:
            self._await(data / "endpoints.json")
        except BaseException:
            self.process.end(signal.SIGKILL)
            raise

    def _await(self, endpoints: Path) -> None:
        eventually("the engine says where it is", lambda: self._alive() and endpoints.exists() and endpoints.read_text().endswith("}\n"))
        at = json.loads(endpoints.read_text())
        self.http: str = at["http"]
        self.kafka = self.kafka or at["kafka"]
        eventually("the engine is ready", lambda: self._alive() and self._get("/readyz") is not None)

    def _alive(self) -> bool:
        assert self.process.popen.poll() is None, self.process.said()
        return True

    def _get(self, path: str) -> bytes | None:
        try:
            with urllib.request.urlopen(self.http + path, timeout=60) as answer:
                return bytes(answer.read())
        except OSError:
            return None

    def sagalog(self, *args: str, status: int = 0) -> str:
        env = {**os.environ, "SAGALOG_API": self.http}
        run = subprocess.run([program(), *args], capture_output=True, text=True, env=env, timeout=WAIT_SECONDS, cwd=self.dir)
        assert run.returncode == status, f"{args}: {run.returncode}\n{run.stdout}\n{run.stderr}"
        return run.stdout

    def apply(self, name: str, text: str) -> None:
        (self.dir / f"{name}.yaml").write_text(text)
        self.sagalog("workflow", "apply", f"{name}.yaml")

    def task(self, id: str) -> dict[str, Any] | None:
        answer = self._get("/v1/tasks/" + urllib.parse.quote(id, safe=""))
        return json.loads(answer) if answer else None

    def ended(self, id: str) -> dict[str, Any]:
        """Waits for the end of a task, or until it is parked."""

        def look() -> dict[str, Any] | None:
            task = self.task(id)
            return task if task is not None and task["state"] in ENDED else None

        try:
            return eventually(f"task {id} has ended", look)  # type: ignore[no-any-return]
        except AssertionError as e:
            raise AssertionError(f"{e}: {self.task(id)}") from e

    def history(self, id: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.sagalog("task", "history", id, "-o", "jsonl").splitlines()]

    def facts(self, id: str, kind: str, step: str) -> list[dict[str, Any]]:
        return [f["data"] for f in self.history(id) if f["type"] == kind and f.get("step") == step]

    def instances(self) -> dict[str, dict[str, Any]]:
        """The live instances, by their names."""
        answer = self._get("/v1/agents")
        return {a["instance"]: a for a in json.loads(answer or b"{}").get("agents") or []}

    def ready(self, instance: str) -> None:
        """Waits until an instance has partitions: requests that are sent from then on were read by no other one."""
        eventually(f"{instance} has partitions", lambda: self.instances().get(instance, {}).get("partitions"))

    def verify(self, *more: str) -> str:
        """Proves the promises, once nothing is under way any more."""
        return self.sagalog("verify", "--brokers", self.kafka, "--at-rest", *more)

    def agent(self, script: str, **env: str) -> Process:
        """Starts an agent as a process."""
        path = Path(script) if "/" in script else HERE / script
        given = {"BROKERS": self.kafka, "PYTHONUNBUFFERED": "1", **env}
        return Process([sys.executable, str(path)], self.dir / f"{path.stem}-{time.monotonic_ns()}.log", given)
