"""An agent: operations that do steps, and what an agent promises to the engine."""

import asyncio
import logging
import signal
import socket
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from confluent_kafka import KafkaException

from sagalog.attempt import Attempt, Json
from sagalog.errors import AgentError
from sagalog.execution import Execution
from sagalog.reader import Reader
from sagalog.request import Request
from sagalog.seldom import client_log
from sagalog.sink import Sink
from sagalog.wire import NAME, NAME_RULE, broker_list, encode, event, instant

if TYPE_CHECKING:
    from sagalog.sealing import Keys

log = logging.getLogger("sagalog")

Operation = Callable[[Attempt], Awaitable[Json]]
O = TypeVar("O", bound=Operation)

PRESENCE_SECONDS = 1.0
LEAVE_SECONDS = 10.0  # how long leaving the group may take
BLOCKED_SECONDS = 5.0  # without a presence
LOOK_SECONDS = 0.25  # how soon a change of the partitions is made known
MAX_CONCURRENCY = 128  # more unfinished requests would not fit into the metadata of a commit


class Agent:
    """An instance of an agent. Instances with the same name share its work, on any number of machines.

    kafka has further settings of librdkafka, such as those for TLS and SASL. grace is how long, after a stop, attempts may go on before they are
    cancelled, and then how long they may take to end. seal_key_file is the key file of the nodes, if the namespace seals. instance is a name that stays
    the same over restarts, and is unique among those that run: the next process with it takes the partitions over at once, even after a kill.
    """

    def __init__(
        self,
        name: str,
        *,
        brokers: str | Iterable[str],
        namespace: str = "sagalog",
        concurrency: int = 16,
        instance: str | None = None,
        grace: float = 2.0,
        seal_key_file: str | None = None,
        kafka: Mapping[str, Any] | None = None,
    ) -> None:
        if not NAME.fullmatch(name):
            raise ValueError(f"{name!r} cannot name an agent: {NAME_RULE}")
        if not 1 <= concurrency <= MAX_CONCURRENCY:
            raise ValueError(f"concurrency is {concurrency}; it must be from 1 to {MAX_CONCURRENCY}; start more instances for more")
        self.name, self.namespace, self.concurrency, self.grace = name, namespace, concurrency, grace
        self.instance = instance or f"{socket.gethostname()}-{uuid.uuid4().hex[:8]}"
        # A static member keeps its partitions for a session after it has left. That helps if its name comes back, which a random one never does.
        self._member: dict[str, Any] = {"group.instance.id": instance} if instance else {}
        self.brokers, self._seal_key_file = broker_list(brokers), seal_key_file
        self._kafka: dict[str, Any] = {"bootstrap.servers": self.brokers, **(kafka or {})}
        if seal_key_file is not None:
            from sagalog.sealing import key_lines  # needs the extra sealing

            key_lines(seal_key_file)  # a file that cannot be used is known at once
        self.operations: dict[tuple[str, str], Operation] = {}
        self._stopping = asyncio.Event()
        self._accepting = True
        self._attempts: dict[asyncio.Task[None], Request] = {}
        self._started = instant()
        self.keys: Keys | None = None

    def operation(self, name: str = "") -> Callable[[O], O]:
        """Decorates the coroutine function that does steps with that operation; without a name, those that name none."""
        return self._register(name, "do")

    def undo(self, name: str = "") -> Callable[[O], O]:
        """Decorates the coroutine function that undoes what the operation did."""
        return self._register(name, "undo")

    def _register(self, name: str, verb: str) -> Callable[[O], O]:
        if callable(name):
            raise TypeError('the decorator needs parentheses, such as @agent.operation() or @agent.operation("charge")')

        if name in ("do", "undo") or name and not NAME.fullmatch(name):
            raise ValueError(f"{name!r} cannot name an operation: {NAME_RULE}, other than do and undo")

        def register(function: O) -> O:
            is_async: bool = asyncio.iscoroutinefunction(function)
            if not is_async:
                raise TypeError(f"{verb} of operation {name!r} must be an async function; call what blocks by asyncio.to_thread")
            if (name, verb) in self.operations:
                raise ValueError(f"agent {self.name} has {verb} of operation {name!r} already")
            self.operations[name, verb] = function
            return function

        return register

    def run_forever(self) -> None:
        """Runs until SIGINT (Ctrl-C) or SIGTERM. A second one ends the process at once.

        If the agent cannot work, the process says why in one line on standard error, and ends with the exit code 1.
        """
        try:
            asyncio.run(self._until_signal())
        except AgentError as e:
            raise SystemExit(f"sagalog: {e}") from None

    async def _until_signal(self) -> None:
        loop, both = asyncio.get_running_loop(), (signal.SIGINT, signal.SIGTERM)

        def stop() -> None:
            log.info("agent %s stops: running attempts have %g s", self.name, self.grace)
            for s in both:
                loop.remove_signal_handler(s)
                signal.signal(s, signal.SIG_DFL)
            self.stop()

        for s in both:
            loop.add_signal_handler(s, stop)
        await self.run()

    def stop(self) -> None:
        """Makes run return: running attempts end within the grace, and those that do not are given back."""
        self._stopping.set()

    async def run(self) -> None:
        """Works until stop is called, or until it is cancelled."""
        if not self.operations:
            raise AgentError(f"agent {self.name} has no operation: decorate a function with @agent.operation()")
        for name in sorted(n for n, verb in self.operations if verb == "undo" and (n, "do") not in self.operations):
            log.warning("agent %s undoes operation %r and does not do it: is that its name?", self.name, name)  # another instance may do it
        async with Sink(self._kafka) as self._sink:
            if not await self._connected():
                return
            if self._seal_key_file is not None:
                from sagalog.sealing import Keys

                self.keys = Keys(self.namespace, self._seal_key_file, self._kafka)
            try:
                await self._work()
            finally:
                if self.keys is not None:
                    self.keys.close()

    async def _connected(self) -> bool:
        """False if a stop came first."""
        checking, stopped = asyncio.create_task(self._sink.check(self.namespace, self.brokers)), asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait({checking, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if checking.done():
                checking.result()
            return checking.done()
        finally:
            checking.cancel()
            stopped.cancel()

    async def _work(self) -> None:
        group = {
            **self._kafka, **self._member, "group.id": f"{self.namespace}.agents.{self.name}", "partition.assignment.strategy": "cooperative-sticky",
            "enable.auto.commit": False, "auto.offset.reset": "earliest", "session.timeout.ms": 10_000, "heartbeat.interval.ms": 1_000,
            "topic.metadata.refresh.interval.ms": 2_000, "allow.auto.create.topics": False,
            "max.poll.interval.ms": 60_000, "enable.metrics.push": False, "logger": client_log,
        }  # fmt: skip
        self._reader = Reader(f"{self.namespace}.work.{self.name}", group, self.concurrency, self._begin, self._unwanted)
        reading = self._reader.start()
        announcing = asyncio.create_task(self._announce())
        stopped = asyncio.create_task(self._stopping.wait())
        either: list[asyncio.Future[Any]] = [reading, announcing, stopped]
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
            await self._drain()
            announcing.cancel()
            await asyncio.wait([reading, announcing], timeout=max(self.grace, LEAVE_SECONDS))
            if not reading.done():  # a commit may wait for brokers that are gone
                log.warning("the group was not left, because no broker answers: it notices after ten seconds that this instance is gone")
            with suppress(KafkaException, TimeoutError):
                await asyncio.wait_for(self._sink.send(f"{self.namespace}.presence", f"agent/{self.instance}", None, [], 0), max(self.grace, 2.0))
        for ended in (reading, announcing):
            if ended.done() and not ended.cancelled():
                ended.result()  # raises what ended it

    async def _drain(self) -> None:
        """Lets attempts end, cancels those that do not, and gives back what is left."""
        self._accepting = False
        with suppress(KafkaException, TimeoutError):
            await asyncio.wait_for(self._send_presence(), PRESENCE_SECONDS)
        self._reader.leave()
        if self._attempts:
            await asyncio.wait(set(self._attempts), timeout=self.grace)
        for q in self._attempts.values():
            q.abandoned = True
            if q.call is not None:
                q.call.cancel()
        if self._attempts:
            await asyncio.wait(set(self._attempts), timeout=self.grace)
        for task, q in self._attempts.items():
            log.warning("an attempt does not end, and is given back: %s", q)
            task.cancel()
        self._reader.leave(abandon=True)

    def _begin(self, q: Request) -> None:
        task = asyncio.create_task(Execution(self, self._sink, self._reader, q).run())
        self._attempts[task] = q
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        q = self._attempts.pop(task)
        if not task.cancelled() and (e := task.exception()) is not None:
            log.error("an attempt ended by a fault of this package, and its time must pass: %s", q, exc_info=e)
            self._reader.finish(q)

    def _unwanted(self, q: Request) -> None:
        q.unwanted = True
        if q.call is not None:
            q.call.cancel()

    async def _announce(self) -> None:
        """One each second, and sooner when the partitions change. The event loop sends them, so an agent that blocks it is given no work."""
        while True:
            sent = self._reader.numbers
            try:
                await asyncio.wait_for(self._send_presence(), PRESENCE_SECONDS)
            except (KafkaException, TimeoutError) as e:
                why = "no answer within a second" if isinstance(e, TimeoutError) else e.args[0]
                log.warning("the presence of this instance was not delivered, so nodes may count it as gone: %s", why)
            for _ in range(round(PRESENCE_SECONDS / LOOK_SECONDS)):
                before = time.monotonic()
                await asyncio.sleep(LOOK_SECONDS)
                if (blocked := time.monotonic() - before - LOOK_SECONDS) > BLOCKED_SECONDS:
                    log.warning("the event loop was blocked for %.0f s, and no presence was sent: make blocking calls with asyncio.to_thread", blocked)
                if self._reader.numbers != sent:
                    break

    async def _send_presence(self) -> None:
        now = instant()
        names = {name for name, _ in self.operations}
        offers = {n: [verb for verb in ("do", "undo") if (n, verb) in self.operations] for n in names | {""}}
        value = {
            "kind": "agent", "instance": self.instance, "agents": [self.name], "operations": {self.name: offers.pop("")},
            "functions": {self.name: offers} if offers else {}, "capacity": {self.name: self.concurrency if self._accepting else 0},
            "in_flight": {self.name: len(self._attempts)}, "health": {self.name: "healthy"},
            "partitions": {self.name: self._reader.numbers if self._accepting else []}, "started_at": self._started, "seen_at": now,
        }  # fmt: skip
        about = event("sagalog.presence", f"{self.instance}/{now}", f"sagalog/agent/{self.instance}", ce_subject=self.instance)
        await self._sink.send(f"{self.namespace}.presence", f"agent/{self.instance}", encode(value), about, 0)
