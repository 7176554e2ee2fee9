"""Retry with back-off: a returned message waits before it is ready again, longer after each return.

The wait is `x-delayed-retry-min` times the number of deliveries, up to `x-delayed-retry-max`; without that,
each wait is as long as the first. Waits are in memory only: a restart ends them.

Source: the quorum queues of RabbitMQ 4.3; here, queues of every type but streams.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush

from routelog.log_backend import CallLater, Timer
from routelog.vhosts.messages.delivery import ReturnReason
from routelog.vhosts.partitions.queue_partition import QueuePartition

RETRY_TYPE = "x-delayed-retry-type"
RETRY_TYPES: Mapping[str, frozenset[ReturnReason]] = {
    "disabled": frozenset(),
    "all": frozenset((ReturnReason.FAILED, ReturnReason.RETURNED)),
    "failed": frozenset((ReturnReason.FAILED,)),
    "returned": frozenset((ReturnReason.RETURNED,)),
}

MILLISECOND = 1_000  # us
SHARE = 100  # waits are rounded up to 1/SHARE of themselves, so that many messages share one timer entry
TIMER_SECONDS_MAX = 3_600.0  # an event loop knows no timers of years


@dataclass(frozen=True, slots=True)
class RetryOptions:
    """Which returned messages wait, and how long (us)."""

    kinds: frozenset[ReturnReason]
    shortest: int
    longest: int

    def wait(self, deliveries: int) -> int:
        """The wait of a message after so many deliveries."""
        return min(self.shortest * deliveries, self.longest)


def retry_options(arguments: Mapping[str, object]) -> RetryOptions | None:
    """The back-off in the arguments of a queue; None: there is none."""
    kinds = RETRY_TYPES.get(str(arguments.get(RETRY_TYPE)))
    shortest = arguments.get("x-delayed-retry-min")
    longest = arguments.get("x-delayed-retry-max", shortest)
    if not (kinds and isinstance(shortest, int) and isinstance(longest, int)):
        return None
    return RetryOptions(kinds, shortest * MILLISECOND, longest * MILLISECOND)


class RetryBackoff:
    """The messages of a queue that wait before they are ready again.

    Attributes:
        options: None: returned messages do not wait.
        count: messages that wait.

    Args:
        monotonic: seconds of a clock that nobody sets.
        ready: makes messages [first, end) of a partition ready.
    """

    def __init__(
        self,
        monotonic: Callable[[], float],
        call_later: CallLater,
        ready: Callable[[QueuePartition, int, int], None],
    ) -> None:
        self.options: RetryOptions | None = None
        self.count = 0
        self._monotonic = monotonic
        self._call_later = call_later
        self._make_ready = ready
        self._ends: list[int] = []  # us of the monotonic clock, a heap
        self._waiting_ranges: dict[int, list[tuple[QueuePartition, int, int]]] = {}  # by end
        self._timer: Timer | None = None

    def holds(self, reason: ReturnReason) -> bool:
        """Whether messages that come back for this reason wait."""
        return self.options is not None and reason in self.options.kinds

    def hold(self, partition: QueuePartition, first: int, end: int) -> None:
        """Let returned messages wait."""
        options = self.options
        if options is None:
            self._make_ready(partition, first, end)
            return
        now = self._now()
        for offset in range(first, end):
            wait = options.wait(1 + partition.delivery_count(offset))
            step = max(MILLISECOND, wait // SHARE)
            self._hold(partition, offset, -(-(now + wait) // step) * step)
        self.count += end - first
        self._set_timer()

    def _hold(self, partition: QueuePartition, offset: int, end: int) -> None:
        waiting = self._waiting_ranges.get(end)
        if waiting is None:
            waiting = self._waiting_ranges[end] = []
            heappush(self._ends, end)
        if waiting and (waiting[-1][0], waiting[-1][2]) == (partition, offset):
            waiting[-1] = (partition, waiting[-1][1], offset + 1)
        else:
            waiting.append((partition, offset, offset + 1))

    def stop(self) -> None:
        """The queue was deleted."""
        self._waiting_ranges.clear()
        self._ends.clear()
        self.count = 0
        self._cancel()

    def _look(self) -> None:
        now = self._now()
        while self._ends and self._ends[0] <= now:
            for partition, first, end in self._waiting_ranges.pop(heappop(self._ends)):
                self.count -= end - first
                if not partition.log.closed:
                    self._make_ready(partition, first, end)
        self._set_timer()

    def _set_timer(self) -> None:
        self._cancel()
        if self._ends:
            seconds = (self._ends[0] - self._now()) / 1_000_000
            seconds = min(max(seconds, 0.0), TIMER_SECONDS_MAX)
            self._timer = self._call_later(seconds, self._look)

    def _now(self) -> int:
        return round(self._monotonic() * 1_000_000)

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
