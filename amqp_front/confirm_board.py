"""Who waits for the journal: when it advances, their publishes are confirmed."""

from collections.abc import Callable
from typing import Protocol


class Waiter(Protocol):
    """Something that waits for journal positions."""

    def durable(self, position: int) -> bool:
        """The journal has reached a position; returns whether it waits for more."""

    def journal_failed(self) -> None:
        """The journal will reach no further position."""


class ConfirmBoard:
    """The channels that have unconfirmed publishes.

    Args:
        call_soon: runs a function after this turn of the event loop, so that the confirms of a
            turn go out together.
    """

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self.position = 0
        self._call_soon = call_soon
        self._waiters: set[Waiter] = set()
        self._scheduled = False

    def wait(self, waiter: Waiter, position: int) -> None:
        """Tell a waiter when the position is durable, after this turn at the earliest."""
        self._waiters.add(waiter)
        if position <= self.position and not self._scheduled:
            self._scheduled = True
            self._call_soon(self._turn)

    def forget(self, waiter: Waiter) -> None:
        """Tell a waiter nothing more."""
        self._waiters.discard(waiter)

    def durable(self, position: int) -> None:
        """The journal has reached a position."""
        self.position = position
        done = [waiter for waiter in self._waiters if not waiter.durable(position)]
        self._waiters.difference_update(done)

    def failed(self) -> None:
        """The journal will reach no further position."""
        waiters, self._waiters = self._waiters, set()
        for waiter in waiters:
            waiter.journal_failed()

    def _turn(self) -> None:
        self._scheduled = False
        self.durable(self.position)
