"""A partition of a queue with `x-max-priority`: the highest priority first, in the order of the log within one.

The log is like that of any queue. The ready messages by priority are in memory only, as far as the log was
scanned: the first delivery after a start, or after a long time without consumers, scans all unsettled messages,
on the disk too, a slice at a time.
"""

from collections.abc import Callable, Iterator

from routelog.log_backend import PartitionLog, Reason
from routelog.vhosts.messages.delivery import Delivery, fitting
from routelog.vhosts.messages.property_list import priority
from routelog.vhosts.partitions.priority_levels import PriorityLevels
from routelog.vhosts.partitions.priority_scan_budget import PriorityScanBudget
from routelog.vhosts.partitions.queue_partition import QueuePartition


class PriorityPartition(QueuePartition):
    """A partition that hands out the highest priority first.

    Args:
        looks: shared by the partitions of its queue.

    Invariant: all ready messages below `next_offset` are in the levels; `returned` is empty.

    After a restart, all messages below the highest offset that was handed out are marked redelivered, also
    those of lower priority that were not handed out.
    """

    __slots__ = ("_levels", "_looks", "_priorities")

    def __init__(
        self,
        log: PartitionLog,
        on_ready: Callable[[], None],
        looks: PriorityScanBudget,
        priority_max: int,
    ) -> None:
        super().__init__(log, on_ready)
        self._looks = looks
        self._levels = PriorityLevels(priority_max)
        # By offset, of delivered messages with a priority above 0
        self._priorities: dict[int, int] = {}

    def count_ready(self) -> int:
        """See `QueuePartition`."""
        unknown = self.log.ready_end - self.next_offset - self._settled_ahead
        return self._levels.count + unknown

    def is_ready(self, offset: int) -> bool:
        """See `QueuePartition`."""
        return super().is_ready(offset) or self._levels.has(offset)

    @property
    def at_damage(self) -> bool:
        """See `QueuePartition`."""
        found = self._levels.head()
        first = self._skip_settled() if found is None else found[1].first
        return first >= self.log.blocked_from

    @property
    def head(self) -> tuple[int, int] | None:
        """See `QueuePartition`; None also while the scan is not done."""
        found = self._levels.head() if self._look() else None
        return None if found is None else (found[1].first, found[1].end)

    def take(self, count_max: int, bytes_max: int) -> Delivery | None:
        """See `QueuePartition`."""
        if self._until_resumed is not None:
            return None
        if not self._look():
            self._await(self.on_ready)
            return None
        if self.rules is not None:
            count_max = self.rules.takeable(self, count_max)
        found = self._levels.head()
        if found is None or not count_max:
            return None
        level, (first, end, redelivered) = found
        batch = self.log.read(first)
        if batch is None:
            self.log.load(first, self.on_ready)
            return None
        end = min(end, batch.end_offset, first + count_max)
        index = first - batch.base_offset
        count = fitting(batch.records, index, end - first, bytes_max)
        end = first + count
        self._levels.pass_head(level, first, end)
        self.cursor.hand_out(end)
        if redelivered:
            self.cursor.redeliver(first, end)
        if level:
            self._priorities.update(dict.fromkeys(range(first, end), level))
        if self.rules is not None:
            self.rules.left(self, first, end)
        self.in_flight += count
        return Delivery(self, batch.records, index, count, first, redelivered)

    def prepare(self, done: Callable[[], None]) -> bool:
        """See `QueuePartition`."""
        if self._until_resumed is not None:
            return super().prepare(done)
        if self._skip_settled() < min(self.log.ready_end, self.log.blocked_from):
            self._await(done)
            return True
        found = self._levels.head()
        if found is None or not self.log.needs_load(found[1].first):
            return False
        self.log.load(found[1].first, done)
        return True

    def _await(self, done: Callable[[], None]) -> None:
        if self.log.needs_load(self.next_offset):
            self.log.load(self.next_offset, done)
        else:
            self._looks.call_soon(done)

    def _look(self) -> bool:
        # Scan the priorities of new messages; returns whether all of them are known.
        while (first := self._skip_settled()) < min(self.log.ready_end, self.log.blocked_from):
            if self._looks.left <= 0:
                return False
            batch = self.log.read(first)
            if batch is None:
                return False
            if batch.base_offset > first:
                self._lose(first, min(batch.base_offset, self.log.ready_end))
                continue
            end = min(batch.end_offset, first + self._looks.left)
            if self._settled_ahead:
                end = self._waiting_until(first, end)
            for offset in range(first, end):
                level = priority(batch.records.properties(offset - batch.base_offset))
                again = offset < self._delivered_before
                self._levels.add(level, offset, offset + 1, redelivered=again)
            self.next_offset = end
            self._looks.use(end - first)
        return True

    def withdraw(self, count: int, below: int) -> tuple[int, int] | None:
        """See `QueuePartition`."""
        found = self._levels.head() if self._look() else None
        below = min(below, self.log.blocked_from)
        if found is None or found[1].first >= below:
            return None
        level, (first, end, _) = found
        end = min(end, first + count, below)
        self._levels.pass_head(level, first, end)
        if self.rules is not None:
            self.rules.left(self, first, end)
        return first, end

    def settle(self, first: int, end: int, reason: Reason = Reason.ACKED) -> None:
        """See `QueuePartition`."""
        if self._priorities:
            for offset in range(first, end):
                self._priorities.pop(offset, None)
        super().settle(first, end, reason)

    def finish(self, first: int, end: int, reason: Reason) -> None:
        """See `QueuePartition`."""
        if self._priorities:
            for offset in range(first, end):
                self._priorities.pop(offset, None)
        super().finish(first, end, reason)

    def make_ready(self, first: int, end: int) -> None:
        """See `QueuePartition`."""
        start, level = first, self._priorities.pop(first, 0)
        for offset in range(first + 1, end):
            other = self._priorities.pop(offset, 0)
            if other != level:
                self._levels.put_back(level, start, offset)
                start, level = offset, other
        self._levels.put_back(level, start, end)

    def ready_ranges(self) -> Iterator[tuple[int, int]]:
        """See `QueuePartition`."""
        yield from self._levels
        yield from super().ready_ranges()

    def _take_below(self, first: int, end: int) -> list[tuple[int, int]]:
        taken = []
        for level, begin, behind in self._levels.take_out(first, end):
            taken.append((begin, behind))
            if level:
                self._priorities.update(dict.fromkeys(range(begin, behind), level))
        return sorted(taken)

    def _purge(self) -> int:
        for first, end in list(self._levels):
            if self.rules is not None:
                self.rules.left(self, first, end)
            self.cursor.settle(first, end, Reason.PURGED)
        count = self._levels.count
        self._levels.clear()
        return count + super()._purge()
