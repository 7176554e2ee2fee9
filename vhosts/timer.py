"""Calls that come later, as the event loop makes them."""

from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """A call that will come."""

    def cancel(self) -> None:
        """Do not make it."""


CallSoon = Callable[[Callable[[], None]], object]
CallLater = Callable[[float, Callable[[], None]], Timer]
