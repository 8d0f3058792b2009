"""Reading and committing while the group changes."""

import asyncio
from typing import Any

import pytest
import sagalog.reader
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from world import TOPIC, Brokers, Sink, execution, reading, until

from sagalog import AgentError, Attempt
from sagalog.reader import Reader
from sagalog.request import Request, Until

PARTITIONS = range(4)


@pytest.fixture
def brokers() -> Brokers:
    b = Brokers()
    for p in PARTITIONS:
        b.ask(f"first-{p}", p)
    return b


def test_a_busy_instance_reads_on_after_a_rebalance(brokers: Brokers) -> None:
    """It is full, so its partitions are paused. Attempts end while another instance joins, before the reader looks again."""
    begun: list[Request] = []

    class Ending(Reader):
        def _assigned(self, consumer: Consumer, added: list[TopicPartition]) -> None:
            super()._assigned(consumer, added)
            for q in begun:
                self.finish(q)

    async def all_begin(reader: Reader, name: str) -> None:
        for p in reader.numbers:
            brokers.ask(f"{name}-{p}", p)
        wanted = {f"{name}-{p}" for p in reader.numbers}

        def look() -> bool:
            for q in begun:
                reader.finish(q)
            return wanted <= {q.work["task"] for q in begun}

        await until(f"all of {name} begin", look)

    async def main() -> None:
        reader = Ending(TOPIC, brokers.group, 1, begun.append, begun.append)

        async def act() -> None:
            await until("the reader is full, and has all partitions", lambda: begun and reader._paused and len(reader.numbers) == len(PARTITIONS))
            other = Consumer(brokers.group)
            other.subscribe([TOPIC])
            try:
                await until("the other one has its share", lambda: (other.poll(0), other.assignment() and len(reader.numbers) == 2)[1])
                await all_begin(reader, "later")
            finally:
                await asyncio.to_thread(other.close)
            await until("all partitions are back", lambda: len(reader.numbers) == len(PARTITIONS))
            await all_begin(reader, "last")

        await reading(reader, act)

    asyncio.run(main())


def test_a_late_start_is_confirmed_once_more(brokers: Brokers) -> None:
    """The machine slept after the commit. Meanwhile another instance may have done the step, and undone it."""
    called: list[str] = []
    stamps: list[Until] = []
    sink = Sink()

    async def do(a: Attempt) -> None:
        called.append(a.task)

    async def main() -> None:
        attempts: list[asyncio.Task[None]] = []

        def begin(q: Request) -> None:
            if not stamps:
                q.confirmed = Until(-1)
            stamps.append(q.confirmed)
            attempts.append(asyncio.create_task(execution(q, do, sink, reader).run()))

        reader = Reader(TOPIC, brokers.group, 1, begin, begin)

        async def act() -> None:
            await until("all are done", lambda: len(sink.sent) == len(PARTITIONS))

        await reading(reader, act)
        await asyncio.gather(*attempts)

    asyncio.run(main())
    assert sorted(called) == [f"first-{p}" for p in PARTITIONS]
    assert len(stamps) > len(PARTITIONS), "one began twice"


def asked(reader: Reader, answers: Any) -> Any:
    """A consumer whose coordinator is away."""

    class Away:
        times = 0

        def memberid(self) -> str:
            return "m"

        def committed(self, added: list[TopicPartition], timeout: float) -> list[TopicPartition]:
            self.times += 1
            answers(self.times)
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

        def incremental_assign(self, start: list[TopicPartition]) -> None:
            pass

        def pause(self, start: list[TopicPartition]) -> None:
            pass

    return Away()


def test_a_stop_ends_the_wait_for_the_offsets() -> None:
    async def main() -> None:
        reader = Reader(TOPIC, {}, 1, lambda q: None, lambda q: None)

        def stop(times: int) -> None:
            assert times == 1, "it asks again after the stop"
            reader.leave()

        reader._assigned(asked(reader, stop), [TopicPartition(TOPIC, 0)])
        assert reader.numbers == [], "they are not offered to nodes"

    asyncio.run(main())


def test_without_offsets_the_group_assigns_once_more(brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> None:
    """A callback must end before max.poll.interval.ms has passed."""
    tries, returned = 0, False

    class Away(Consumer):
        def committed(self, *args: Any, **more: Any) -> list[TopicPartition]:
            nonlocal tries
            tries += 1
            if tries == 1:
                monkeypatch.undo()
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
            assert returned, "it asks again within the callback"
            return super().committed(*args, **more)

    class Watched(Reader):
        def _assigned(self, consumer: Consumer, added: list[TopicPartition]) -> None:
            nonlocal returned
            super()._assigned(consumer, added)
            returned = True

    monkeypatch.setattr(sagalog.reader, "Consumer", Away)
    monkeypatch.setattr(sagalog.reader, "ASSIGN_SECONDS", -1.0)
    begun: list[Request] = []

    async def main() -> None:
        reader = Watched(TOPIC, brokers.group, 4, begun.append, begun.append)

        async def act() -> None:
            await until("all begin", lambda: len(begun) == len(PARTITIONS))
            assert tries > 1

        await reading(reader, act)

    asyncio.run(main())


class Fence:
    """What the client says when another process has joined under the name of the instance."""

    def error(self) -> KafkaError:
        return KafkaError(KafkaError._FATAL, "Fatal error: Broker: Static consumer fenced by other consumer with same group.instance.id")

    def partition(self) -> None: ...
    def offset(self) -> None: ...
    def value(self) -> None: ...


def fencing(monkeypatch: pytest.MonkeyPatch, most: int) -> list[Consumer]:
    """The first members are fenced, at their first look. Returns all members."""
    members: list[Consumer] = []

    class Fencing(Consumer):
        looked = False

        def __init__(self, config: dict[str, Any]) -> None:
            super().__init__(config)
            members.append(self)

        def poll(self, timeout: float = -1) -> Any:
            if self.looked or len(members) > most:
                return super().poll(timeout)
            self.looked = True
            return Fence()

    monkeypatch.setattr(sagalog.reader, "Consumer", Fencing)
    return members


def test_a_fenced_instance_joins_again(brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a namesake, a join of its own took effect late."""
    members = fencing(monkeypatch, 1)
    begun: list[Request] = []

    async def main() -> None:
        reader = Reader(TOPIC, brokers.group, 4, begun.append, begun.append)

        async def act() -> None:
            await until("all begin", lambda: len(begun) == len(PARTITIONS))

        await reading(reader, act)

    asyncio.run(main())
    assert len(members) == 2


def test_an_instance_that_is_fenced_again_and_again_ends(brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> None:
    members = fencing(monkeypatch, 100)

    async def main() -> None:
        with pytest.raises(AgentError, match="another process uses the instance name one: give each its own"):
            Reader(TOPIC, {**brokers.group, "group.instance.id": "one"}, 4, print, print).run()

    asyncio.run(main())
    assert len(members) == sagalog.reader.FENCED_MOST


def test_an_instance_that_stops_leaves_its_name_to_the_next(brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is fenced while its attempts go on, and may not take the name back."""
    members = fencing(monkeypatch, 0)
    begun: list[Request] = []

    async def main() -> None:
        reader = Reader(TOPIC, brokers.group, 4, begun.append, begun.append)

        async def act() -> None:
            await until("all begin", lambda: len(begun) == len(PARTITIONS))
            reader.leave()
            monkeypatch.setattr(members[0], "poll", lambda timeout: Fence())
            await until("its partitions are another one's", lambda: reader.numbers == [])
            answer = reader.finish_durably(begun[0])
            assert not await answer, "nobody may say that a request never runs again"
            for q in begun:
                reader.finish(q)

        await reading(reader, act)

    asyncio.run(main())
    assert len(members) == 1
