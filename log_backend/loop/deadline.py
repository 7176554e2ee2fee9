"""A call that is due some time after it was asked for, and is called off nearly always."""

import asyncio
from collections.abc import Callable


class Deadline:
    """Setting and clearing it costs no timer: the one that runs looks what is due when it rings.

    Args:
        call: made once, `seconds` after the first `set` since the last `clear`, or since it was made.
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
        """Call within `seconds`."""
        if self._due is None:
            self._due = self._loop.time() + self._seconds
            if self._timer is None:
                self._timer = self._loop.call_later(self._seconds, self._ring)

    def clear(self) -> None:
        """Do not call, unless it is set again."""
        self._due = None

    def stop(self) -> None:
        """Never call again."""
        self._due = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ring(self) -> None:
        self._timer = None
        if self._due is None:
            return
        left = self._due - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(left, self._ring)
        else:
            self._due = None
            self._call()
