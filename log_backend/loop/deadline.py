"""A timer that is set and cleared very often, and rarely fires."""

import asyncio
from collections.abc import Callable


class Deadline:
    """Calls a function some time after it was set.

    `set` and `clear` only change the due time: one timer of the event loop keeps running, and when it fires
    it is started again for the time that is left.

    Args:
        call: called `seconds` after `set`, unless `clear` came first; a second `set` changes nothing.
    """

    __slots__ = ("_call", "_due", "_loop", "_seconds", "_timer")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, seconds: float, call: Callable[[], None]
    ) -> None:
        self._loop = loop
        self._seconds = seconds
        self._call = call
        self._due: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def set(self) -> None:
        """Call after `seconds`."""
        if self._due is None:
            self._due = self._loop.time() + self._seconds
            if self._timer is None:
                self._timer = self._loop.call_later(self._seconds, self._fire)

    def clear(self) -> None:
        """Do not call, unless it is set again."""
        self._due = None

    def stop(self) -> None:
        """Cancel the timer."""
        self._due = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _fire(self) -> None:
        self._timer = None
        if self._due is None:
            return
        left = self._due - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(left, self._fire)
        else:
            self._due = None
            self._call()
