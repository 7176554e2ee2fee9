"""The order of a queue with `x-max-priority`: the highest priority first, in the order of the log within one.

The log is like that of any queue. The ready messages by priority are in memory only, as far as the log was
scanned: the first delivery after a start, after a change of the highest priority, or after a long time without
consumers, scans all unsettled messages, on the disk too, a slice at a time. What comes back is scanned again.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from routelog.log_backend import Lane, RecordBatch, Scheduler
from routelog.vhosts.messages.property_list import priority
from routelog.vhosts.partitions.priority_levels import PriorityLevels
from routelog.vhosts.partitions.queue_partition import QueuePartition

MESSAGES_MAX = 512  # scanned in a turn: 1 to 2 ms


class PriorityScanBudget:
    """How many messages one queue may scan in this turn.

    Attributes:
        left: messages.
    """

    __slots__ = ("_scheduler", "_used", "left")

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.left = MESSAGES_MAX
        self._used = False

    def use(self, count: int) -> None:
        """Take so many messages from the budget."""
        self.left -= count
        if not self._used:
            self._used = True
            self.call_soon(self._renew)

    def call_soon(self, call: Callable[[], None]) -> None:
        """Run a function after this turn of the event loop."""
        self._scheduler.call(Lane.FRESH, call)

    def _renew(self) -> None:
        self._used = False
        self.left = MESSAGES_MAX


class PriorityOrder(PriorityLevels):
    """Hands out the messages of a partition by priority; see `ReadyOrder`.

    Args:
        budget: shared by the partitions of its queue.

    Invariant: it has all ready messages below the partition's `next_offset`.

    After a restart, all messages below the highest offset that was handed out are marked redelivered, also
    those of lower priority that were not handed out.
    """

    __slots__ = ("_budget", "_partition")

    def __init__(
        self, partition: QueuePartition, budget: PriorityScanBudget, priority_max: int
    ) -> None:
        super().__init__(priority_max)
        self._partition = partition
        self._budget = budget
        for first, end in partition.take_returned_ranges():
            self.put_back(first, end)

    @property
    def is_over(self) -> bool:
        """See `ReadyOrder`: there are no priorities any more, and the last messages put in order have gone."""
        return not (self.priority_max or self.count)

    def sort(self) -> bool:
        """See `ReadyOrder`."""
        while self._has_unscanned():
            first = self._next_to_scan()
            batch = self._partition.log.read(first) if self._budget.left > 0 else None
            if batch is None:
                return False
            if batch.base_offset > first:
                self._lose(first, batch.base_offset)
                continue
            end = min(batch.end_offset, first + self._budget.left)
            self._budget.use(self._scan(batch, first, end) - first)
        return True

    def when_sorted(self, done: Callable[[], None]) -> None:
        """See `ReadyOrder`."""
        log, first = self._partition.log, self._next_to_scan()
        if log.needs_load(first):
            log.load(first, done)
        else:
            self._budget.call_soon(done)

    def _next_to_scan(self) -> int:
        came_back = self.unsorted_head()
        return self._partition.skip_settled() if came_back is None else came_back.first

    def _has_unscanned(self) -> bool:
        if not self.priority_max:
            return False  # any order is that of the log
        log = self._partition.log
        return self._next_to_scan() < min(log.ready_end, log.blocked_from)

    def _scan(self, batch: RecordBatch, first: int, end: int) -> int:
        # Returns where the messages that are neither settled nor handed out end.
        partition, known = self._partition, self.unsorted_head()
        again = first < partition.delivered_before
        if known is not None:
            end = min(end, known.end)
        else:
            end = min(end, partition.delivered_before) if again else end
            end = partition.waiting_until(first, end)
        for level, stop in _runs(batch, first, end):
            if known is not None:
                self.place(level, stop)
            else:
                self.add(level, partition.next_offset, stop, redelivered=again)
                partition.next_offset = stop
        return end

    def _lose(self, first: int, end: int) -> None:
        # No batch holds these offsets.
        known = self.unsorted_head()
        self._partition.lose(
            first, min(end, self._partition.log.ready_end if known is None else known.end)
        )


def prioritize(
    partitions: Sequence[QueuePartition], priority_max: int, scheduler: Scheduler
) -> None:
    """Let the partitions of a queue hand out by priorities up to a highest one; 0: in the order of the log."""
    budget = PriorityScanBudget(scheduler) if priority_max else None
    for partition in partitions:
        if isinstance(partition.order, PriorityOrder):
            partition.order.change(priority_max)
        elif budget is not None:
            partition.order = PriorityOrder(partition, budget, priority_max)


def _runs(batch: RecordBatch, first: int, end: int) -> Iterator[tuple[int, int]]:
    # Neighbours of one priority: it, and the offset behind them.
    def level(offset: int) -> int:
        return priority(batch.records.properties(offset - batch.base_offset))

    for each, offsets in groupby(range(first, end), level):
        *_, last = offsets
        yield each, last + 1
