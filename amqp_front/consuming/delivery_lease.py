"""The lease of a consumer's deliveries: what it does not settle in time goes back to the queue.

Nothing is noted for a delivery. From time to time the lease marks how far the channel's tags have come; when a
mark is as old as the lease is long, what lies below it was delivered at least as long ago.

Where RabbitMQ closes the channel (to 4.2) or cancels the consumer (4.3), here only the message is taken
back. Its tag stays known: the client may settle it later without harm, and until then it counts for the
prefetch count, so that a consumer that hangs is not given more and more.
"""

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from routelog.log_backend import CallLater, Timer

MARKS = 8  # of one lease: it ends at most a quarter later than it has to
MARK_SECONDS_MAX = 60.0  # as often as RabbitMQ looks
MARK_SECONDS_MIN = 0.01


_Holder = TypeVar("_Holder")
_HolderIn = TypeVar("_HolderIn", contravariant=True)


class LeasedConsumption(Protocol[_HolderIn]):
    """What a lease needs of the channel's consumption."""

    next_tag: int

    def end_leases(self, holder: _HolderIn, end_tag: int) -> int:
        """Take back what a consumer holds with tags below, soon; returns what it holds of its lease still."""


class DeliveryLease(Generic[_Holder]):
    """The lease of one consumer.

    Attributes:
        runs: it watches deliveries.

    Args:
        seconds: how long a delivery may be unsettled, asked again each time; None: for ever.
        now: seconds of a clock that never goes back.
    """

    __slots__ = (
        "_call_later",
        "_consumption",
        "_holder",
        "_marks",
        "_now",
        "_seconds",
        "_timer",
        "runs",
    )

    def __init__(
        self,
        consumption: LeasedConsumption[_Holder],
        holder: _Holder,
        seconds: Callable[[], float | None],
        now: Callable[[], float],
        call_later: CallLater,
    ) -> None:
        self.runs = False
        self._consumption = consumption
        self._holder = holder
        self._seconds = seconds
        self._now = now
        self._call_later = call_later
        self._marks: list[tuple[float, int]] = []
        self._timer: Timer | None = None

    def begin(self) -> None:
        """The consumer holds something: watch it."""
        seconds = self._seconds()
        if seconds is not None:
            self.runs = True
            self._wait(seconds)

    def stop(self) -> None:
        """Watch no more: the channel is closed."""
        self.runs = False
        self._marks.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def held_seconds(self, tag: int) -> float:
        """How long a delivery is unsettled, at least: by the first mark behind it."""
        since = next((time for time, end_tag in self._marks if tag < end_tag), None)
        return 0.0 if since is None else self._now() - since

    def _wait(self, seconds: float) -> None:
        pause = min(max(seconds / MARKS, MARK_SECONDS_MIN), MARK_SECONDS_MAX)
        self._timer = self._call_later(pause, self._look)

    def _look(self) -> None:
        seconds = self._seconds()
        if seconds is None:
            self.stop()
            return
        now = self._now()
        end_tag = 0
        while self._marks and self._marks[0][0] <= now - seconds:
            end_tag = self._marks.pop(0)[1]
        if not self._consumption.end_leases(self._holder, end_tag):
            self.stop()
            return
        next_tag = self._consumption.next_tag
        if not self._marks or self._marks[-1][1] != next_tag:
            self._marks.append((now, next_tag))
        self._wait(seconds)
