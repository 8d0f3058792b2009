"""Warnings that would fill the log while a broker is away."""

import logging
import time

log = logging.getLogger("sagalog")
CLIENT_SECONDS = 30.0
_said: dict[str, float] = {}


def due(kind: str, every: float) -> bool:
    """Whether nothing of that kind was said for so many seconds. Then it counts as said."""
    now = time.monotonic()
    if now - _said.get(kind, -every) < every:
        return False
    _said[kind] = now
    return True


def say(about: str, text: str, *values: object, every: float = 10.0) -> None:
    """Logs a warning, unless one about the same was logged just now."""
    if due(about, every):
        log.warning(text, *values)


def client_line(record: logging.LogRecord) -> bool:
    """Lets a kind of message of the Kafka client through once in a while: while no broker answers it writes many lines a second."""
    return due("client " + (str(record.args[0]) if isinstance(record.args, tuple) and record.args else record.msg), CLIENT_SECONDS)


client_log = logging.getLogger("sagalog.kafka")
client_log.addFilter(client_line)
