"""A real engine for tests of agents and workflows: with sagalog.testing.Engine() as engine: ..."""

import json
import os
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

ENDED = {"processed", "undone", "error", "terminated"}


class Engine:
    """`sagalog dev` on free ports of this machine, with its broker in it. Its files are in a temporary folder, which is removed when it ends.

    program is the path of sagalog; without it, the variable SAGALOG_BIN or PATH says where it is. flags are added to the command.
    """

    def __init__(self, *flags: str, program: str | None = None, timeout: float = 120.0) -> None:
        found = program or os.environ.get("SAGALOG_BIN") or shutil.which("sagalog")
        if found is None:
            raise FileNotFoundError("the program sagalog is not in PATH: name it in program= or in the variable SAGALOG_BIN")
        self.program, self._folder = found, tempfile.TemporaryDirectory(prefix="sagalog-")
        data = Path(self._folder.name)
        self._log = data / "engine.log"
        command = [found, "dev", "--demo", "none", "--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0", "--data", str(data / "data"), *flags]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            at = until(timeout, lambda: self._at(data / "data" / "endpoints.json"), lambda: f"{found} is not ready:\n{self.log()}")
        except BaseException:
            self.close()
            raise
        self.brokers: str = at["kafka"]
        self.api: str = at["http"]

    def _at(self, file: Path) -> Any:
        if self._process.poll() is not None:
            raise RuntimeError(f"{self.program} ended:\n{self.log()}")
        if not file.exists() or not file.read_text().endswith("}\n"):
            return None
        at = json.loads(file.read_text())
        return at if fetched(at["http"] + "/readyz") is not None else None

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def run(self, *args: str | Path) -> str:
        """Runs a command of sagalog against this engine, and returns what it prints. Raises RuntimeError if it fails."""
        done = subprocess.run([self.program, *args], capture_output=True, text=True, env={**os.environ, "SAGALOG_API": self.api})
        if done.returncode != 0:
            raise RuntimeError(f"sagalog {' '.join(map(str, args))}: {done.stdout}{done.stderr}")
        return done.stdout

    def apply(self, *files: str | Path) -> None:
        """Applies workflows."""
        self.run("workflow", "apply", *files)

    def task(self, id: str) -> dict[str, Any] | None:
        """A task as GET /v1/tasks/{id} shows it; None while there is none."""
        answer = fetched(f"{self.api}/v1/tasks/{urllib.parse.quote(id, safe='')}")
        return None if answer is None else json.loads(answer)

    def wait(self, id: str, timeout: float = 120.0) -> dict[str, Any]:
        """Waits until a task has ended, or is parked (its state is error then). Raises TimeoutError with the task, or with the dead letters."""

        def ended() -> dict[str, Any] | None:
            task = self.task(id)
            return task if task is not None and task["state"] in ENDED else None

        return until(timeout, ended, lambda: f"task {id} has not ended: {self.task(id) or self.run('dlq', 'list')}")  # type: ignore[no-any-return]

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()
        self._folder.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def until(timeout: float, look: Callable[[], Any], why: Callable[[], str]) -> Any:
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        if (found := look()) is not None:
            return found
        time.sleep(0.05)
    raise TimeoutError(f"not within {timeout:g} s: {why()}")


def fetched(url: str) -> bytes | None:
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            return bytes(answer.read())
    except OSError:
        return None
