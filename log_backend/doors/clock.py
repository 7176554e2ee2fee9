"""The clock door, and timers of the event loop."""

import time
from collections.abc import Callable
from typing import NamedTuple, Protocol


class Clock(Protocol):
    """Wall time for timestamps, monotonic time for durations."""

    def now(self) -> int:
        """Microseconds since 1970."""

    def monotonic(self) -> float:
        """Seconds since some fixed moment; never goes back."""

    def thread_seconds(self) -> float:
        """Processor time that the calling thread has used."""

    def pause(self, seconds: float) -> None:
        """Block the calling thread; never call it on the event loop."""


class Timer(Protocol):
    """A call that the event loop makes later."""

    def cancel(self) -> None:
        """Do not make the call."""


CallLater = Callable[[float, Callable[[], None]], Timer]  # seconds, and what to call then


class Moment(NamedTuple):
    """Wall time and monotonic time, read together: see `Clock`."""

    now: int
    monotonic: float

    @classmethod
    def of(cls, clock: Clock) -> "Moment":
        """Read both times of a clock."""
        return cls(clock.now(), clock.monotonic())


class SystemClock:
    """The clock of the operating system."""

    def now(self) -> int:
        """Microseconds since 1970."""
        return time.time_ns() // 1000

    monotonic = staticmethod(time.monotonic)  # a call less: it is asked several times for each read

    def thread_seconds(self) -> float:
        """Processor time that the calling thread has used."""
        return time.thread_time()

    def pause(self, seconds: float) -> None:
        """Block the calling thread; never call it on the event loop."""
        time.sleep(seconds)
