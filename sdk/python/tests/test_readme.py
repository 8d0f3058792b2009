"""Every block of README.md runs as it stands there, except for the address of the broker, and the program, which is built already."""

import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest
from engine import PACKAGE, WAIT_SECONDS, Engine, Process, eventually, program

import sagalog

README = PACKAGE / "README.md"


class Page:
    """The blocks of the page, and a folder like the repository, in which they run with an environment that the first one fills."""

    def __init__(self, dir: Path, engine: Engine) -> None:
        self.dir, self.engine = dir, engine
        self.blocks = re.findall(r"^```(\w+)\n(.*?)^```$", README.read_text(), re.M | re.S)
        shutil.copytree(PACKAGE, dir / "sdk/python", ignore=shutil.ignore_patterns("tests", "build", "*.egg-info", "__pycache__"))
        venv.create(dir / "venv", with_pip=True)
        self.env = {**os.environ, "PATH": f"{dir}/venv/bin:{os.environ['PATH']}", "SAGALOG_API": engine.http}
        del self.env["PYTHONPATH"]

    def next(self, language: str) -> str:
        found, text = self.blocks.pop(0)
        assert found == language
        return str(text).replace("go run ./cmd/sagalog", program()).replace("127.0.0.1:9092", self.engine.kafka)

    def shell(self) -> str:
        command = self.next("sh")
        run = subprocess.run(["bash", "-euc", command], capture_output=True, text=True, cwd=self.dir, env=self.env, timeout=WAIT_SECONDS)
        assert run.returncode == 0, f"{command}{run.stdout}{run.stderr}"
        return run.stdout

    def start(self, name: str, text: str) -> Process:
        (self.dir / name).write_text(text)
        env = {"PYTHONUNBUFFERED": "1", "PYTHONPATH": ""}
        return Process([str(self.dir / "venv/bin/python"), name], self.dir / f"{name}.log", env, self.dir)


def test_the_blocks_have_types(tmp_path: Path) -> None:
    """As strictly as mypy can."""
    card, producer, train, tests = re.findall(r"^```python\n(.*?)^```$", README.read_text(), re.M | re.S)
    train = "import sagalog\nagent = sagalog.Agent('trainer', brokers='127.0.0.1:1')\nasync def one_epoch() -> None: ...\n" + train
    for name, text in {"card.py": card, "producer.py": producer, "train.py": train, "test_card.py": tests}.items():
        (tmp_path / name).write_text(text)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", os.devnull, "."]
    checked = subprocess.run(command, cwd=tmp_path, env={**os.environ, "MYPYPATH": str(Path(sagalog.__file__).parents[1])}, capture_output=True, text=True, timeout=WAIT_SECONDS)
    assert checked.returncode == 0 and "4 source files" in checked.stdout, checked.stdout + checked.stderr


@pytest.fixture
def page(tmp_path: Path, engine: Engine) -> Iterator[Page]:
    yield Page(tmp_path, engine)


def test_the_page_runs(page: Page, engine: Engine, processes: list[Process]) -> None:
    page.shell()  # installs
    assert page.next("sh").strip() == f"{program()} dev --demo none"
    page.shell()  # applies the workflow
    card = page.start("card.py", page.next("python"))
    processes.append(card)
    (page.dir / "producer.py").write_text(page.next("python"))
    shown = page.shell()
    assert "processed" in shown
    assert engine.ended("order-2")["state"] == "undone"
    assert "charge 200 with the key" in card.said()
    assert "give back {'charged': 200} of the call with the key" in card.said()

    long = "import asyncio\nimport sagalog\nagent = sagalog.Agent('trainer', brokers='%s')\n" % engine.kafka
    long += "async def one_epoch(): await asyncio.sleep(0.1)\n" + page.next("python") + "agent.run_forever()\n"
    engine.apply("train", "workflow: train\nsteps: {s: {agent: trainer, operation: train, heartbeat: 10s, complete_within: 30m}}\n")
    processes.append(page.start("train.py", long))
    engine.sagalog("task", "submit", "-w", "train", "--id", "train-1", "--input", '{"epochs": 5}')
    assert engine.ended("train-1")["steps"][0]["output"] == {"epochs": 5}
    (page.dir / "test_card.py").write_text(page.next("python"))
    env = {k: v for k, v in os.environ.items() if k not in ("PYTEST_CURRENT_TEST", "BROKERS")} | {"SAGALOG_BIN": program()}
    tested = subprocess.run([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "test_card.py"], cwd=page.dir, env=env, timeout=WAIT_SECONDS, capture_output=True, text=True)
    assert "3 passed" in tested.stdout, tested.stdout + tested.stderr

    assert not page.blocks, "each block of the page is used"

    processes[0].popen.terminate()
    assert eventually("the agent ends", lambda: card.popen.poll() is not None)
    assert card.popen.returncode == 0, card.said()
