"""Waits for calls of the Kafka client without blocking the event loop, or the end of the process."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any


def detached(work: Callable[[], Any], name: str) -> asyncio.Future[Any]:
    """Runs work in a thread that does not keep the process alive: the client may wait long, or forever, for brokers that are gone."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Any] = loop.create_future()

    def run() -> None:
        value, error = None, None
        try:
            value = work()
        except BaseException as e:
            error = e
        with suppress(RuntimeError):  # the loop has been closed meanwhile
            loop.call_soon_threadsafe(settle, answer, value, error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return answer


def settle(answer: asyncio.Future[Any], value: Any, error: BaseException | None = None) -> None:
    if answer.done():
        return
    if error is None:
        answer.set_result(value)
    else:
        answer.set_exception(error)
