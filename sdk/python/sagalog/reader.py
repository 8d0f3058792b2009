"""Reads work requests and commits their offsets, in a thread that owns the Kafka consumer.

Rebalances are served by that thread too, so the assignment never changes between a commit and what follows from it.
"""

import asyncio
import json
import logging
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from sagalog.errors import AgentError
from sagalog.offsets import EVERYTHING, Partition, decode_done
from sagalog.request import AttemptID, Request, StepID, Until
from sagalog.seldom import due, say
from sagalog.threads import detached, settle
from sagalog.wire import headers

log = logging.getLogger("sagalog")

COMMIT_SECONDS = 0.2
BUSY_SECONDS, IDLE_SECONDS = 0.01, 0.1  # how long a poll waits: commands of the event loop are obeyed in between
ASK_SECONDS = 5.0
ASSIGN_SECONDS = 30.0  # half of max.poll.interval.ms
# A third of the session: an instance that was silent for longer may have been replaced, and what it is about to start undone.
CONFIRMED_SECONDS = 3.0
WAITING_SECONDS = 60.0
REMEMBERED = 10_000  # attempts that were answered, and steps that were undone
# The group may fence a member that has no namesake, if an earlier join of its own takes effect late. A living namesake fences it again and again.
FENCED_MOST, FENCED_SECONDS = 3, 60.0


class Fenced(Exception):
    """The group says that another process has joined under the name of this instance."""


class Reader:
    def __init__(self, topic: str, config: dict[str, Any], concurrency: int, begin: Callable[[Request], None], stop: Callable[[Request], None]) -> None:
        self.topic, self.concurrency = topic, concurrency
        self.loop = asyncio.get_running_loop()
        self._config, self._begin, self._stop = config, begin, stop
        self._commands: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._partitions: dict[int, Partition] = {}
        self._held: dict[AttemptID, Request] = {}
        self._waiting: deque[Request] = deque()
        self._running = 0
        self._durable: list[tuple[Request, asyncio.Future[bool]]] = []
        self._answered: OrderedDict[AttemptID, None] = OrderedDict()
        self._undone: OrderedDict[StepID, None] = OrderedDict()
        self._leaving = self._paused = self._unlearned = self._missing = False
        self._left = threading.Event()
        self._member = ""
        self._next_commit = 0.0
        self.numbers: list[int] = []  # the partitions that are assigned, for the presence

    # The event loop calls these.

    def start(self) -> asyncio.Future[None]:
        return detached(self.run, "sagalog-reader")

    def finish(self, q: Request) -> None:
        """The request is over: its report is durable, or may not be sent any more."""
        self._commands.put(lambda: self._finish(q))

    def finish_durably(self, q: Request) -> asyncio.Future[bool]:
        """Finishes the request by a commit at once. The answer says whether no instance will run it, or has."""
        answer: asyncio.Future[bool] = self.loop.create_future()
        self._commands.put(lambda: self._durable.append((q, answer)))
        return answer

    def postpone(self, q: Request) -> None:
        """Begins the request again once another commit has confirmed that it is ours."""
        self._commands.put(lambda: self._postpone(q))

    def leave(self, abandon: bool = False) -> None:
        """Begins no more requests, and leaves the group when those that run are over, or at once. What is unfinished is delivered again."""
        self._left.set()
        self._commands.put(lambda: self._leave(abandon))

    # Everything below runs in the thread.

    def run(self) -> None:
        fenced = deque([-FENCED_SECONDS] * FENCED_MOST, FENCED_MOST)
        while True:
            try:
                return self._be_member()
            except Fenced as e:
                fenced.append(time.monotonic())
                if fenced[-1] - fenced[0] < FENCED_SECONDS:
                    raise AgentError(f"another process uses the instance name {self._config.get('group.instance.id')}: give each its own ({e})") from None
                say("fenced", "the group has fenced this instance, which joins again: %s", e)

    def _be_member(self) -> None:
        """Reads as one member of the group, until a stop."""
        self._consumer = Consumer(self._config)
        self._subscribe()
        try:
            while not self._leaving or self._held or not self._commands.empty():
                self._poll()
                if self._unlearned and not self._left.is_set():  # the group assigns the partitions once more
                    self._unlearned = False
                    self._consumer.unsubscribe()
                    self._subscribe()
                self._await_topic()
                while not self._commands.empty():
                    self._commands.get()()
                self._settle()
            self._next_commit = 0.0
            self._settle()
        finally:
            self._consumer.close()

    def _subscribe(self) -> None:
        self._consumer.subscribe([self.topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost)

    def _await_topic(self) -> None:
        if not self._missing or self._left.is_set() or not due(f"topic {self.topic}", WAITING_SECONDS):
            return
        with suppress(KafkaException):  # others may have all its partitions by now
            self._missing = self.topic not in self._consumer.list_topics(timeout=ASK_SECONDS).topics
        if self._missing:
            log.warning("waiting for the topic %s: a node creates it when a task first needs the agent; perhaps no workflow names it", self.topic)

    def _poll(self) -> None:
        room = 2 * self.concurrency - len(self._held)
        if self._paused != (full := self._leaving or room <= 0):
            self._paused = full
            (self._consumer.pause if self._paused else self._consumer.resume)(self._consumer.assignment())
        message = self._consumer.poll(BUSY_SECONDS if self._held or self._leaving else IDLE_SECONDS)
        while message is not None:
            self._receive(message)
            room -= 1
            message = self._consumer.poll(0) if room > 0 else None

    def _receive(self, m: Message) -> None:
        error, number, offset, value = m.error(), m.partition(), m.offset(), m.value()
        if error is not None:
            return self._failed(error)
        partition = self._partitions.get(-1 if number is None else number)
        if partition is None or offset is None:
            return
        try:
            known = headers(m)
            if known.get("ce_type") == "sagalog.work":
                return self._received(Request(value or b"", known), partition, offset)
            if known.get("ce_type") == "sagalog.work.stop":
                self._stopped(json.loads(value or b""))
        except (KeyError, TypeError, ValueError) as e:
            say("invalid", "the record at %s/%s/%s is no work request, and is dropped: %r", self.topic, number, offset, e)
        partition.read(offset, 0)
        partition.finish(offset)

    def _received(self, q: Request, partition: Partition, offset: int) -> None:
        if not partition.read(offset, q.cap.wall):
            return
        q.places.append((partition, offset))
        if q.id in self._held:  # the same attempt came twice, and is over when the one that is held is
            return self._held[q.id].places.append((partition, offset))
        if q.undo:
            remember(self._undone, q.step)
        self._held[q.id] = q
        self._waiting.append(q)

    def _stopped(self, s: dict[str, Any]) -> None:
        q = self._held.get((s["task"], s.get("ticket", ""), s["run"], s["step"], s["operation"], s["attempt"]))
        if q is not None:
            log.info("an attempt is stopped: %s: %s", q, s.get("reason", ""))
            self.loop.call_soon_threadsafe(self._stop, q)

    def _drop(self, q: Request) -> bool:
        """Whether a request that waits must not begin: its time is over, its undo came first, or it is another instance's by now."""
        if not any(p.owned for p, _ in q.places):
            self._held.pop(q.id, None)
            return True
        if q.end.left() <= 0:
            say("late", "a request came after its time, and is dropped (it waited too long, or this machine's clock is ahead): %s", q)
        elif q.id not in self._answered and (q.undo or q.step not in self._undone):
            return False
        self._finish(q, began=False)
        return True

    def _finish(self, q: Request, began: bool = True) -> None:
        for partition, offset in q.places:
            partition.finish(offset)
        if self._held.pop(q.id, None) is not None and began:
            self._running -= 1
            remember(self._answered, q.id)

    def _postpone(self, q: Request) -> None:
        if self._held.get(q.id) is not q:  # given back meanwhile
            return
        self._running -= 1
        if self._leaving:
            del self._held[q.id]
        else:
            self._waiting.appendleft(q)

    def _leave(self, abandon: bool) -> None:
        self._leaving = True
        for q in list(self._held.values()) if abandon else list(self._waiting):
            self._held.pop(q.id, None)
        self._waiting.clear()

    def _settle(self) -> None:
        """Commits what is due, and begins requests that a commit has confirmed to be ours.

        The group accepts a commit only from a member, so one that succeeds after a request was read shows that the partition had not moved.
        A later owner then finds the request below the end of the partition, and knows that it may have been started.
        """
        self._waiting = deque(q for q in self._waiting if not self._drop(q))
        ready = [self._waiting[i] for i in range(min(len(self._waiting), self.concurrency - self._running))]
        durable, self._durable = self._durable, []
        for q, _ in durable:
            for p, offset in q.places:
                p.finish(offset)
        wanted = {p.number for q in (*ready, *(q for q, _ in durable)) for p, _ in q.places if p.owned}
        if time.monotonic() >= self._next_commit:
            self._next_commit = time.monotonic() + COMMIT_SECONDS
            wanted |= {n for n, p in self._partitions.items() if p.due(time.time()) != p.committed and p.next > 0}
        confirmed = Until(CONFIRMED_SECONDS)
        stored = self._store(wanted)
        for q in ready:
            if any(p.owned and p.number in stored for p, _ in q.places):
                q.confirmed = confirmed
                self._waiting.remove(q)
                self._running += 1
                self.loop.call_soon_threadsafe(self._begin, q)
        for q, answer in durable:
            covered = q.exclusive() and all(p.covers(offset) for p, offset in q.places)
            for p, offset in () if covered else q.places:
                p.open[offset] = q.cap.wall
            self.loop.call_soon_threadsafe(settle, answer, covered)

    def _store(self, numbers: Iterable[int]) -> set[int]:
        """Commits the partitions, and returns those of which the commit is durable."""
        positions = {n: self._partitions[n].due(time.time()) for n in numbers}
        if not positions:
            return set()
        try:
            result = self._consumer.commit(offsets=[TopicPartition(self.topic, n, low, text) for n, (low, text) in positions.items()], asynchronous=False)
        except KafkaException as e:
            say("commit", "offsets were not committed, and are committed again soon: %s", e)
            return set()
        if self._consumer.memberid() != self._member:  # a commit of somebody who is no member confirms nothing
            return set()
        stored = {t.partition for t in result if t.error is None}
        for n in stored:
            self._partitions[n].committed = positions[n]
        return stored

    def _assigned(self, consumer: Consumer, added: list[TopicPartition]) -> None:
        self._member = consumer.memberid()
        self._missing = self._missing and not added
        until = Until(ASSIGN_SECONDS)
        committed = self._committed(consumer, added, until) if added else []
        start = []
        for t in committed or ():
            p = self._learn(consumer, t, until)
            self._partitions[t.partition] = p
            start.append(TopicPartition(self.topic, t.partition, p.next or OFFSET_BEGINNING))
        if committed is None:  # without a Partition, what is read of them is passed over and never committed
            self._unlearned, start = True, added
        consumer.incremental_assign(start)
        # Those that stay are paused as they were. A new one is paused if it was when this consumer last had it.
        if start:
            (consumer.pause if self._paused or self._unlearned else consumer.resume)(start)
        self.numbers = sorted(self._partitions)
        log.info("this instance has the partitions %s of %s", self.numbers, self.topic)

    def _committed(self, consumer: Consumer, added: list[TopicPartition], until: Until) -> list[TopicPartition] | None:
        """Asks for the group's offsets until a stop, or for as long as a callback may take. None if there was no answer."""
        while True:
            try:
                committed = consumer.committed(added, timeout=ASK_SECONDS)
                if all(t.error is None for t in committed):
                    return committed
            except KafkaException as e:
                say("committed", "the group's offsets cannot be read; trying again: %s", e)
            if until.left() <= 0 or self._left.wait(COMMIT_SECONDS):
                return None

    def _learn(self, consumer: Consumer, t: TopicPartition, until: Until) -> Partition:
        """Finds out, after the assignment, which requests another instance may have received: those below the end of a partition.

        One without a commit was never worked on, because its first reader commits before it begins.
        """
        try:
            begin, end = consumer.get_watermark_offsets(t, timeout=0.001 if self._left.is_set() else max(min(ASK_SECONDS, until.left()), 0.001))
        except KafkaException as e:
            say("end", "the end of %s/%s is not known, so its requests count as shared with other instances: %s", self.topic, t.partition, e)
            begin, end = 0, EVERYTHING
        if t.offset < 0:
            return Partition(t.partition, begin, [], 0)
        if t.offset > end:  # the brokers lost requests
            return Partition(t.partition, end, [], t.offset)
        return Partition(t.partition, t.offset, decode_done(t.offset, t.metadata), end)

    def _revoked(self, _: Consumer, gone: list[TopicPartition]) -> None:
        self._store({t.partition for t in gone} & self._partitions.keys())
        self._lost(_, gone)

    def _lost(self, _: Consumer, gone: list[TopicPartition]) -> None:
        for t in gone:
            if (p := self._partitions.pop(t.partition, None)) is not None:
                p.owned = False
        self.numbers = sorted(self._partitions)

    def _failed(self, error: KafkaError) -> None:
        code = error.code()
        if error.fatal() or code in (KafkaError._FATAL, KafkaError.FENCED_INSTANCE_ID):  # only a namesake makes an error of a consumer fatal
            self._lost(self._consumer, [TopicPartition(self.topic, n) for n in self._partitions])
            if not self._left.is_set():  # an instance that stops leaves its name to the next one
                raise Fenced(str(error))
        elif code == KafkaError.UNKNOWN_TOPIC_OR_PART:
            self._missing = not self._partitions
        elif code in (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED):
            say("denied", "reading %s is not allowed: %s (sagalog generate acls --role agent prints what an agent needs)", self.topic, error)
        else:
            say(f"error {code}", "reading %s: %s; trying again", self.topic, error)


def remember(what: "OrderedDict[Any, None]", key: object) -> None:
    what[key] = None
    if len(what) > REMEMBERED:
        what.popitem(last=False)
