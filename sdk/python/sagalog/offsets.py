"""Which work requests of a partition are finished, and the commit that says so.

The committed offset never passes a request that is unfinished and not expired, so an instance that dies loses nothing. The commit's metadata
lists the finished ones above it, such as "sagalog-done-1 3+2,1+40": 3 not known to be finished, 2 finished, 1 not known, 40 finished.
"""

from collections.abc import Iterable

Span = tuple[int, int]  # a run of offsets, end not included

FORMAT = "sagalog-done-1 "
METADATA_BYTES = 4096  # the default of the broker setting offset.metadata.max.bytes
EVERYTHING = 1 << 63  # above every offset


def encode_done(next_offset: int, done: Iterable[Span]) -> str:
    parts = []
    for first, end in done:
        parts.append(f"{first - next_offset}+{end - first}")
        next_offset = end
    return FORMAT + ",".join(parts) if parts else ""


def decode_done(next_offset: int, text: str | None) -> list[Span]:
    """Any text that has another form was written by another program, and means nothing."""
    if not text or not text.startswith(FORMAT):
        return []
    out: list[Span] = []
    for part in text.removeprefix(FORMAT).split(","):
        gap, plus, length = part.partition("+")
        if not plus or not gap.isdecimal() or not length.isdecimal() or int(length) == 0:
            return []
        first = next_offset + int(gap)
        next_offset = first + int(length)
        out.append((first, next_offset))
    return out


class Partition:
    """A partition of the work topic since it was assigned. Its methods are called by the reading thread only."""

    def __init__(self, number: int, start: int, done: list[Span], shared: int) -> None:
        self.number = number
        self.owned = True
        # Another instance may have received the requests below this offset.
        self.shared = shared
        self.next = start
        self.open: dict[int, float] = {}  # the unfinished offsets with their ends
        self.done = done  # what was finished before the assignment
        self.committed: tuple[int, str] | None = None

    def read(self, offset: int, until: float) -> bool:
        """Records that a request was read. False if it was finished before."""
        self.next = max(self.next, offset + 1)
        if any(first <= offset < end for first, end in self.done):
            return False
        self.open[offset] = until
        return True

    def finish(self, offset: int) -> None:
        self.open.pop(offset, None)

    def due(self, now: float) -> tuple[int, str]:
        """The commit that holds now: an offset and its metadata."""
        low = min((o for o, until in self.open.items() if until > now), default=self.next)
        runs: list[Span] = []
        first = low
        for offset in sorted(o for o in self.open if o >= low):
            if offset > first:
                runs.append((first, offset))
            first = offset + 1
        if self.next > first:
            runs.append((first, self.next))
        runs = [r for r in runs if r[1] > low] + [(max(a, self.next), b) for a, b in self.done if b > self.next]
        text = encode_done(low, runs)
        # The runs that an earlier commit recorded must stay recorded: if not all fit, that commit stands.
        return (low, text) if len(text) <= METADATA_BYTES or self.committed is None else self.committed

    def covers(self, offset: int) -> bool:
        """Whether the last commit says that the request is finished."""
        if self.committed is None:
            return False
        low, text = self.committed
        return offset < low or any(first <= offset < end for first, end in decode_done(low, text))
