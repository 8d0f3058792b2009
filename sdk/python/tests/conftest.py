"""What the tests share."""

import subprocess
from collections.abc import Iterator


import pytest
from bank import Bank
from engine import Engine, Process


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """One engine for the tests of a file."""
    e = Engine(tmp_path_factory.mktemp("engine"))
    yield e
    assert e.process.end() == 0, e.process.said()


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bank]:
    with Bank(tmp_path_factory.mktemp("ledgers") / "card.ndjson") as b:
        yield b


@pytest.fixture
def processes() -> Iterator[list[Process]]:
    """Processes that end with the test, however it ends."""
    started: list[Process] = []
    yield started
    for p in started:
        p.popen.terminate()  # so that its presence and its place in the group do not outlive it
    for p in started:
        try:
            p.popen.wait(30)
        except subprocess.TimeoutExpired:
            p.popen.kill()
            p.popen.wait()


