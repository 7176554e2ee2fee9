"""A monitor of how long callbacks hold the event loop, while all connections wait."""

import asyncio
import logging
from collections import deque

from routelog.log_backend import Clock

log = logging.getLogger(__name__)

TICK_SECONDS = 0.05  # a shorter hold may pass between two ticks; 20 a second cost 0.2 % of a core
STRETCH_SECONDS = 10.0
STRETCHES = 6  # a minute
WARN_MILLISECONDS = 250  # clients notice it


class LoopMonitor:
    """A periodic timer that notes how late it fires.

    A hold is measured from the tick that it delays, so up to TICK_SECONDS too short.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        self._loop = loop
        self._clock = clock
        self._stretch_ms = 0
        self._stretches: deque[int] = deque(maxlen=STRETCHES)
        self._stretch_end = clock.monotonic() + STRETCH_SECONDS
        self._next_tick = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def longest_ms_last_minute(self) -> int:
        """The longest hold of the last 60 to 70 seconds."""
        return max(self._stretch_ms, *self._stretches, 0)

    def start(self) -> None:
        """Begin to watch."""
        self._next_tick = self._clock.monotonic() + TICK_SECONDS
        self._timer = self._loop.call_later(TICK_SECONDS, self._tick)

    def stop(self) -> None:
        """End the timer."""
        if self._timer is not None:
            self._timer.cancel()

    def _tick(self) -> None:
        now = self._clock.monotonic()
        held_ms = int((now - self._next_tick) * 1000)
        self._stretch_ms = max(self._stretch_ms, held_ms)
        if now >= self._stretch_end:
            self._next_stretch(now)
        self.start()

    def _next_stretch(self, now: float) -> None:
        if self._stretch_ms >= WARN_MILLISECONDS:
            log.warning("the event loop was held for %d ms: all clients waited", self._stretch_ms)
        self._stretches.append(self._stretch_ms)
        self._stretch_ms = 0
        self._stretch_end = now + STRETCH_SECONDS
