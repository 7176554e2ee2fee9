"""Who waits for the journal: when it advances, their publishes are confirmed."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from routelog.log_backend import NOTHING, Histogram, JournalPositions


class Waiter(Protocol):
    """Something that waits until the journal has come far enough."""

    def journal_reached(self, reached: JournalPositions) -> bool:
        """The journal has come so far; returns whether it waits for more."""

    def journal_late(self, late: JournalPositions) -> bool:
        """The journal should have come so far long ago; returns whether it waits for more."""

    def journal_failed(self) -> None:
        """The journal will come no further."""


class ConfirmBoard:
    """The channels that have unconfirmed publishes.

    Attributes:
        reached: how far the journal has come.
        in_time: what is done, or fails when that takes too long: see `ConfirmDeadline`.
        latencies: seconds from a run of publishes to its confirm, of one run at a time.

    Args:
        call_soon: runs a function after this turn of the event loop, so that the confirms of a
            turn go out together.
        now: a monotonic clock, in seconds.
    """

    def __init__(
        self, call_soon: Callable[[Callable[[], None]], object], now: Callable[[], float]
    ) -> None:
        self.reached = NOTHING
        self.latencies = Histogram()
        self.in_time: Callable[[Awaitable[object]], Awaitable[object]] = lambda done: done
        self._call_soon = call_soon
        self._waiters: set[Waiter] = set()
        self._held: set[Waiter] = set()
        self._scheduled = False
        self._now = now
        self._measured: JournalPositions | None = None  # what the measured run needs
        self._measured_since = 0.0

    def wait(self, waiter: Waiter, needed: JournalPositions) -> None:
        """Tell a waiter when the journal covers what it needs, after this turn at the earliest."""
        self._waiters.add(waiter)
        if self._measured is None:
            self._measured, self._measured_since = needed, self._now()
        if not self._scheduled and self.reached.cover(needed):
            self._scheduled = True
            self._call_soon(self._turn)

    def hold(self, waiter: Waiter) -> bool:
        """Tell a waiter nothing before `release`; returns whether it was told until now."""
        if waiter in self._held:
            return False
        self._held.add(waiter)
        return True

    def release(self, waiter: Waiter) -> None:
        """Tell a waiter that was held how far the journal has come."""
        self._held.discard(waiter)
        if waiter in self._waiters and not waiter.journal_reached(self.reached):
            self._waiters.discard(waiter)

    def forget(self, waiter: Waiter) -> None:
        """Tell a waiter nothing more."""
        self._waiters.discard(waiter)
        self._held.discard(waiter)

    def written(self, position: int) -> None:
        """The journal is written up to a position."""
        self._advance(JournalPositions(position, self.reached.durable))

    def durable(self, position: int) -> None:
        """The journal is written and durable up to a position."""
        self._advance(JournalPositions(position, position))

    def late(self, late: JournalPositions) -> None:
        """The journal should have come so far long ago: what waits for no more is refused."""
        done = [waiter for waiter in self._waiters if not waiter.journal_late(late)]
        self._waiters.difference_update(done)

    def failed(self) -> None:
        """The journal will come no further."""
        self._measured = None
        waiters, self._waiters = self._waiters, set()
        for waiter in waiters:
            waiter.journal_failed()

    def _turn(self) -> None:
        self._scheduled = False
        self._advance(self.reached)

    def _advance(self, reached: JournalPositions) -> None:
        self.reached = reached
        if self._measured is not None and reached.cover(self._measured):
            self._measured = None
            self.latencies.observe(self._now() - self._measured_since)
        waiters = self._waiters - self._held if self._held else self._waiters
        if waiters:
            done = [waiter for waiter in waiters if not waiter.journal_reached(reached)]
            self._waiters.difference_update(done)
