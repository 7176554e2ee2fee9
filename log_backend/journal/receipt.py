# cython: annotation_typing=False
"""What a confirm waits for (`Receipt`), and how far a journal has come (`Progress`).

publish ─► Receipt: of a Progress, positions written and durable [─► Receipt of another one]
                          │
journal ─► advance ─► Progress ─► journal_reached, of those who wait for such a position
"""

from collections import deque
from collections.abc import Callable
from typing import Protocol

from routelog.log_backend.measures.histogram import Histogram

_ALL = 1 << 62


class Waiter(Protocol):
    """Something that waits for a receipt; it is told once, and waits again for more."""

    def journal_reached(self) -> None:
        """A journal has come as far as the receipt says; others may be behind."""

    def journal_late(self) -> None:
        """The journal should have come so far long ago; it may come yet."""

    def journal_failed(self) -> None:
        """The journal will come no further."""


class Progress:
    """How far a journal has come, and who waits for it.

    Everything up to `written` is in the system's hands, up to `durable` on the disk. In a cluster both are
    what is committed: on the disks of all replicas that count.

    Attributes:
        written, durable: positions of blocks; `durable` is never the higher one.
        late: where the journal should have been long ago: see `refuse`; when it has failed, all is late.
        latencies: seconds from a run of publishes to its confirm, of one run at a time; sessions share one.
        around: runs a function that tells many waiters.

    Args:
        call_soon: runs a function after this turn of the event loop.
        now: a monotonic clock, in seconds.
    """

    def __init__(
        self, call_soon: Callable[[Callable[[], None]], object], now: Callable[[], float]
    ) -> None:
        self.written = self.durable = self.late = 0
        self.latencies = Histogram()
        self.around: Callable[[Callable[[], None]], None] = lambda tell: tell()
        self._call_soon = call_soon
        self._now = now
        self._has_failed = self._is_scheduled = False
        # By position: few at a time, of the blocks under way
        self._for_written: dict[int, list[Waiter]] = {}
        self._for_durable: dict[int, list[Waiter]] = {}
        self._due: deque[Waiter] = deque()
        self._last = NOTHING  # publishes of one block share it
        self._measured: Receipt | None = None
        self._measured_since = 0.0

    def receipt(self, written: int, durable: int) -> "Receipt":
        """A receipt for two positions here; 0 waits for nothing."""
        last = self._last
        if not (written or durable):
            last = NOTHING
        elif written != last.written or durable != last.durable:
            last = self._last = Receipt(self, written, durable)
        return last

    def wait(self, waiter: Waiter, receipt: "Receipt") -> None:
        """Tell a waiter when a receipt is covered, after this turn at the earliest.

        Each of several journals tells it for itself: the waiter looks, and waits again.
        """
        pair: Receipt | None = receipt
        while pair is not None:
            progress = pair.progress
            if progress is not None and pair.durable > progress.durable:
                return progress._add(waiter, progress._for_durable, pair.durable)
            if progress is not None and pair.written > progress.written:
                return progress._add(waiter, progress._for_written, pair.written)
            pair = pair.more
        self._due.append(waiter)
        return self._tell_soon()

    def _add(self, waiter: Waiter, waiting: dict[int, list[Waiter]], position: int) -> None:
        if self._has_failed:
            self._call_soon(waiter.journal_failed)
        else:
            waiting.setdefault(position, []).append(waiter)

    def measure(self, receipt: "Receipt") -> None:
        """Take the time of a run of publishes here, unless that of another one is taken."""
        is_ours = receipt.progress is self and receipt.more is None
        if self._measured is None and (is_ours or receipt is NOTHING):
            self._measured, self._measured_since = receipt, self._now()

    def advance(self, written: int, durable: int) -> None:
        """The journal has come so far."""
        self.written, self.durable = written, durable
        _move(self._for_written, written, self._due)
        _move(self._for_durable, durable, self._due)
        self._tell()

    def refuse(self, late: int) -> None:
        """The journal should have come so far long ago: tell those who wait for that."""
        if not self._has_failed:
            self.late = late
        for waiter in self._taken(late):
            waiter.journal_late()

    def fail(self) -> None:
        """The journal will come no further."""
        self._has_failed, self._measured, self.late = True, None, _ALL
        for waiter in self._taken(_ALL):
            waiter.journal_failed()

    def _taken(self, end: int) -> deque[Waiter]:
        taken = deque[Waiter]()
        _move(self._for_written, end, taken)
        _move(self._for_durable, end, taken)
        return taken

    def _tell(self) -> None:
        self._is_scheduled = False
        if self._measured is not None and self._measured.is_covered():
            self._measured = None
            self.latencies.observe(self._now() - self._measured_since)
        if self._due:
            self.around(self._tell_due)

    def _tell_due(self) -> None:
        try:
            for _ in range(len(self._due)):
                self._due.popleft().journal_reached()
        finally:
            if self._due:  # an error of one keeps nothing from the others
                self._tell_soon()

    def _tell_soon(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._call_soon(self._tell)


def _move(waiting: dict[int, list[Waiter]], end: int, due: deque[Waiter]) -> None:
    if waiting:
        for position in sorted([each for each in waiting if each <= end]):
            due += waiting.pop(position)


class Receipt:
    """What somebody waits for: two positions of a journal, and rarely some of others. It does not change.

    Each position counts for itself: a publish to several queues may need one block written and another one
    synced.

    Attributes:
        progress: of the journal; None: it waits for nothing.
        more: what it waits for of other journals; None: nothing.
    """

    def __init__(
        self,
        progress: Progress | None,
        written: int,
        durable: int,
        more: "Receipt | None" = None,
    ) -> None:
        self.progress = progress
        self.written = written
        self.durable = durable
        self.more = more

    def is_covered(self) -> bool:
        """Whether the journals have come as far as that."""
        progress = self.progress
        if progress is None:
            return True
        if self.written > progress.written or self.durable > progress.durable:
            return False
        return self.more is None or self.more.is_covered()

    def is_late(self) -> bool:
        """Whether a journal should have come as far as that long ago, and has not."""
        progress = self.progress
        if progress is None:
            return False
        is_there = self.written <= progress.written and self.durable <= progress.durable
        if not is_there and self.written <= progress.late and self.durable <= progress.late:
            return True
        return self.more is not None and self.more.is_late()

    def joined(self, other: "Receipt") -> "Receipt":
        """What covers both."""
        if other.progress is None or other is self:
            return self
        joined = self._with(other)
        return joined if other.more is None else joined.joined(other.more)

    def _with(self, pair: "Receipt") -> "Receipt":
        if self.progress is None:
            return pair
        if pair.progress is self.progress:
            written, durable = max(self.written, pair.written), max(self.durable, pair.durable)
            return Receipt(self.progress, written, durable, self.more)
        more = pair if self.more is None else self.more._with(pair)
        return Receipt(self.progress, self.written, self.durable, more)

    def when_covered(self, done: Callable[[], None]) -> None:
        """Call `done` when it is covered, at once if it is; never if a journal fails before."""
        _Call(self, done).journal_reached()


NOTHING = Receipt(None, 0, 0)


class _Call:
    # A call that waits for a receipt.
    def __init__(self, receipt: Receipt, done: Callable[[], None]) -> None:
        self._receipt, self._done = receipt, done

    def journal_reached(self) -> None:
        receipt = self._receipt
        if receipt.is_covered():
            self._done()
        elif receipt.progress is not None:
            receipt.progress.wait(self, receipt)

    journal_late = journal_reached

    def journal_failed(self) -> None:
        pass
