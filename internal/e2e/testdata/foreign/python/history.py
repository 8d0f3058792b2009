"""Reads <ns>.events as events/FORMAT.md says under "Reading the log": which facts count, and the outcome of an input."""

import json
import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

PATIENCE = 90  # seconds for each wait; the engine takes milliseconds
ENDS = ("TaskProcessed", "TaskUndone", "TaskParked")


def text(headers, key):
    """The last header of this key, or the empty text if there is none."""
    found = [value for name, value in headers or [] if name == key]
    return (found[-1] or b"").decode() if found else ""


class Partition:
    """The rule of void records, for one partition."""

    def __init__(self):
        self.ident, self.ordinal, self.next, self.broken = "", 0, 0, False

    def accepts(self, kind, headers, value):
        if kind == "PartitionClaimed":
            claim = json.loads(value)
            if claim["prev"] != self.ident or claim["id"] in ("", self.ident):
                return False
            self.ident, self.ordinal, self.next, self.broken = claim["id"], self.ordinal + 1, 0, False
            return True
        epoch, _, sequence = text(headers, "ce_id").partition("/")[2].rpartition("/")
        if self.ordinal == 0 or epoch != f"{self.ordinal}-{self.ident}":
            return False
        sequence = int(sequence)
        accepted = not self.broken and sequence == self.next
        self.broken = self.broken or sequence > self.next
        self.next += accepted
        return accepted


class History:
    """All accepted facts of a namespace, the inputs that were sent home, and the dead letters of submissions."""

    def __init__(self, brokers, namespace):
        self.events, self.submissions = f"{namespace}.events", f"{namespace}.submissions"
        self.dead = f"dlq.{namespace}.submissions"
        self.consumer = Consumer({"bootstrap.servers": brokers, "group.id": "not-used", "enable.auto.commit": False,
                                  "isolation.level": "read_committed", "fetch.wait.max.ms": 100})
        topics = self.consumer.list_topics(timeout=PATIENCE).topics
        count = len(topics[self.events].partitions)
        self.consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING)
                              for topic in (self.events, self.submissions, self.dead) for p in range(count)])
        self.partitions = [Partition() for _ in range(count)]
        self.judged = [0] * count  # by partition: the offset of the first submission that is not judged yet
        self.void = 0
        self.tasks = {}    # task ID: the kinds of its facts
        self.caused = {}   # cause: the facts that it caused, as (kind, body)
        self.homes = {}    # "<partition>/<offset>" where an input was found: the place of its copy
        self.letters = {}  # "<partition>/<offset>" of a rejected input: its dead letter

    def close(self):
        self.consumer.close()

    def until(self, what, holds):
        """Reads until holds() is neither None nor False, and returns that value."""
        deadline = time.monotonic() + PATIENCE
        while True:
            found = holds()
            if found is not None and found is not False:
                return found
            if time.monotonic() > deadline:
                raise TimeoutError(f"timed out after {PATIENCE} s: {what}")
            message = self.consumer.poll(0.2)
            if message is None:
                continue
            if message.error():
                raise RuntimeError(message.error())
            self.read(message)

    def read(self, message):
        headers, place = message.headers(), f"{message.partition()}/{message.offset()}"
        if message.topic() == self.submissions:
            found = text(headers, "sagalog-forwarded-from")
            if found:
                self.homes[found] = place
            return
        if message.topic() == self.dead:
            at = f"{text(headers, '__dlq.errors.partition')}/{text(headers, '__dlq.errors.offset')}"
            self.letters[at] = message
            return
        kind = text(headers, "ce_type").removeprefix("sagalog.")
        if not self.partitions[message.partition()].accepts(kind, headers, message.value()):
            self.void += 1
            return
        self.fact(message, kind, json.loads(message.value()))

    def fact(self, message, kind, body):
        if message.key() is not None:
            self.tasks.setdefault(message.key().decode(), []).append(kind)
        cause = text(message.headers(), "ce_cause")
        passed = 0
        if kind == "InputsPassed":
            passed = body.get("inputs", {}).get("submissions", {}).get("next", 0)
        elif cause.startswith("s/"):
            self.caused.setdefault(cause, []).append((kind, body))
            passed = int(cause.rsplit("/", 1)[1]) + 1
        p = message.partition()
        self.judged[p] = max(self.judged[p], passed)

    def outcome(self, partition, offset):
        """The outcome of a submission: the name of its fact, or "duplicate", the place where it was judged, and the body.

        If it was sent home, this is the outcome of the copy."""
        self.until(f"submission {partition}/{offset} is judged", lambda: self.judged[partition] > offset)
        for kind, body in self.caused.get(f"s/{partition}/{offset}", []):
            if kind == "InputForwarded":
                copy = self.until(f"submission {partition}/{offset} comes home",
                                  lambda: self.homes.get(f"{partition}/{offset}"))
                home, at = (int(n) for n in copy.split("/"))
                return self.outcome(home, at)
            return kind, f"{partition}/{offset}", body
        return "duplicate", f"{partition}/{offset}", {}

    def letter(self, at):
        """The dead letter of the submission that was rejected at <partition>/<offset>."""
        return self.until(f"the dead letter of {at}", lambda: self.letters.get(at))

    def end(self, task):
        """The facts of a task once it has ended."""
        return self.until(f"task {task} ends",
                          lambda: self.tasks.get(task) if any(k in ENDS for k in self.tasks.get(task, [])) else None)
