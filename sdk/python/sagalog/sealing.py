"""Opens and seals the content of tasks, by the keys in the topic <ns>.keys (events/FORMAT.md, "Sealed values")."""

import base64
import hashlib
import json
import os
import threading
import time
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from sagalog.attempt import Json
from sagalog.errors import AgentError, Refused, Unavailable
from sagalog.seldom import client_log
from sagalog.wire import encode

FRESH_SECONDS = 0.5  # an erasure holds within a second
TRUSTED_SECONDS = 60.0  # without reading the topic; an erasure would not be noticed
READ_SECONDS = 2.0
REST_SECONDS = 5.0  # between a read that failed and the next: all attempts wait for it


class Erased(Refused):
    """The key of the content was erased, so no retry can open it."""


class Keys:
    """The data keys of a namespace. Its methods wait for brokers, and may be called from several threads."""

    def __init__(self, namespace: str, key_file: str, config: dict[str, Any]) -> None:
        self._topic, self._file = f"{namespace}.keys", key_file
        self._namespace = ""  # the ID of the namespace, which the first key names
        self._wrapped: dict[str, dict[str, str]] = {}  # by ID: the record
        self._erased: dict[str, str] = {}  # by ID: when
        self._lock = threading.Lock()
        self._next, self._read_at, self._failed_at = OFFSET_BEGINNING, -TRUSTED_SECONDS, -REST_SECONDS
        self._consumer = Consumer({**config, "group.id": "unused", "enable.auto.commit": False, "enable.partition.eof": True, "enable.metrics.push": False, "logger": client_log})
        self._consumer.assign([TopicPartition(self._topic, 0, OFFSET_BEGINNING)])

    def close(self) -> None:
        with self._lock:
            self._consumer.close()

    def open(self, value: Json) -> Json:
        """Returns the value with all sealed values in it opened."""
        if (name := sealed(value)) is not None:
            id, _, text = name.split(".")
            data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
            key = self._key(id)
            try:
                opened = AESGCM(key).decrypt(data[:12], data[12:], self._bound(id))
            except InvalidTag as e:
                raise Unavailable(f"the content is damaged: its key {id} does not open it", code="no_key", effect="none") from e
            return json.loads(opened) if opened else None
        if isinstance(value, dict):
            return {k: self.open(v) for k, v in value.items()}
        return [self.open(v) for v in value] if isinstance(value, list) else value

    def seal_like(self, like: Json, value: Json) -> Json:
        """Seals a value for the subject of one that is sealed."""
        if sealed(value) is not None:
            return value
        name = (sealed(like) or "").partition(".")[0]
        self._key(name)
        with self._lock:
            subject = self._wrapped[name]["subject"]
            _, id = max((k["made"], id) for id, k in self._wrapped.items() if k["subject"] == subject)
        nonce = os.urandom(12)
        text = base64.urlsafe_b64encode(nonce + AESGCM(self._key(id)).encrypt(nonce, encode(value), self._bound(id))).decode().rstrip("=")
        return {"$sealed": f"{id}..{text}"}

    def _bound(self, id: str) -> bytes:
        return f"sagalog value 1\0{self._namespace}\0{id}".encode()

    def _key(self, id: str) -> bytes:
        with self._lock:
            self._refresh(id in self._wrapped)
            if id in self._erased:
                raise Erased(f"the content was erased on {self._erased[id][:10]}", code="erased", effect="none")
            record = self._wrapped.get(id)
            if record is None:
                raise Unavailable(f"the data key {id} is not in the topic {self._topic}", code="no_key", effect="none")
        wrapping = key_lines(self._file).get(record["with"])
        if wrapping is None:
            raise Unavailable(f"{self._file} lacks the key {record['with']}; copy the key file of the nodes", code="no_key", effect="none")
        data = base64.b64decode(record["wrapped"])
        bound = "\0".join(["sagalog key 1", self._namespace, id, record["subject"]])
        try:
            return AESGCM(wrapping).decrypt(data[:12], data[12:], bound.encode())
        except InvalidTag as e:
            raise Unavailable(f"the data key {id} in the topic {self._topic} is damaged: {record['with']} does not open it", code="no_key", effect="none") from e

    def _refresh(self, known: bool) -> None:
        """Reads the topic to its end, unless it was read just now. The lock is held."""
        now = time.monotonic()
        if known and now - self._read_at < FRESH_SECONDS:
            return
        if now - self._failed_at >= REST_SECONDS and self._read(now):
            self._read_at = now
        elif not known or now - self._read_at > TRUSTED_SECONDS:
            raise Unavailable(f"the topic {self._topic} cannot be read, so erased and new keys would not be noticed", code="no_key", effect="none")

    def _read(self, now: float) -> bool:
        try:
            _, end = self._consumer.get_watermark_offsets(TopicPartition(self._topic, 0), timeout=READ_SECONDS)
            while self._next < end and time.monotonic() - now < READ_SECONDS:
                self._take(self._consumer.poll(0.1))
            if self._next >= end:
                return True
        except KafkaException:
            pass
        self._failed_at = time.monotonic()
        return False

    def _take(self, m: Any) -> None:
        if m is None:
            return
        if m.error() is not None:
            if m.error().code() == KafkaError._PARTITION_EOF:
                self._next = max(self._next, m.offset())
            return
        self._next = m.offset() + 1
        kind, _, id = (m.key() or b"").decode().partition("/")
        if kind == "erased" and m.value():
            self._erased[id] = json.loads(m.value())["erased"]
            self._wrapped.pop(id, None)
        elif kind == "key" and m.value() and id not in self._erased:
            record = json.loads(m.value())
            self._namespace = self._namespace or record["namespace"]
            if record["namespace"] == self._namespace:
                self._wrapped[id] = record


def key_lines(file: str) -> dict[str, bytes]:
    """The lines of the key file by their fingerprints. The file is read each time, since it may change at any time."""
    try:
        with open(file, encoding="ascii") as f:
            keys = [bytes.fromhex(line) for line in f.read().split()]
    except (OSError, ValueError) as e:
        raise AgentError(f"the key file {file} cannot be used: {e}; copy that of the nodes") from None
    return {hashlib.sha256(b"sagalog sealing key 1\0" + k).digest()[:4].hex(): k for k in keys}


def sealed(value: Json) -> str | None:
    """What a value that is sealed as a whole holds; None for any other."""
    name = value.get("$sealed") if isinstance(value, dict) and len(value) == 1 else None
    return name if isinstance(name, str) and name.count(".") == 2 else None
