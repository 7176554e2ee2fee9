"""The clock door."""

import time
from typing import NamedTuple, Protocol


class Clock(Protocol):
    """Wall time for what people read, monotonic time for everything that is a duration."""

    def now(self) -> int:
        """Microseconds since 1970."""

    def monotonic(self) -> float:
        """Seconds since some fixed moment; never goes back."""

    def thread_seconds(self) -> float:
        """Processor time of the thread that asks, since it began."""

    def pause(self, seconds: float) -> None:
        """Let the thread that asks rest; never that of the event loop."""


class Moment(NamedTuple):
    """What a clock shows at one time: see `Clock`."""

    now: int
    monotonic: float


def moment(clock: Clock) -> Moment:
    """What a clock shows."""
    return Moment(clock.now(), clock.monotonic())


class SystemClock:
    """The clock of the operating system."""

    def now(self) -> int:
        """See `Clock`."""
        return time.time_ns() // 1000

    def monotonic(self) -> float:
        """See `Clock`."""
        return time.monotonic()

    def thread_seconds(self) -> float:
        """See `Clock`."""
        return time.thread_time()

    def pause(self, seconds: float) -> None:
        """See `Clock`."""
        time.sleep(seconds)
