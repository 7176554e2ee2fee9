"""A consumer group: consumers that compete for all messages of a log, with progress of their own."""

import logging
import sys
from asyncio import Future
from collections.abc import Mapping, Sequence

from routelog.log_backend import Hold, PartitionLog, Reason, Scheduler
from routelog.vhosts.filters.reader_filter import LOOK_SECONDS, ReaderFilter
from routelog.vhosts.messages.consumer import Consumer
from routelog.vhosts.messages.delivery import Delivery, ReturnReason
from routelog.vhosts.partitions.queue_partition import QueuePartition
from routelog.vhosts.queues.dispatcher import Dispatcher
from routelog.vhosts.stored.topology_record import GroupRecord

log = logging.getLogger(__name__)


class ConsumerGroup(Dispatcher):
    """One consumer group of a queue that keeps its log. It dispatches like a queue.

    Attributes:
        record: as stored; of a queue that is not durable, as it would be.
        places: its partitions, in order.
        creating: resolves when the record is durable; None afterwards.
        idle_since: monotonic seconds; None while it is used, or before the first check.
        wanted: its filter, once a consumer has joined; None: it has none.
        scheduler: of the node.
    """

    __slots__ = ("_has_looked", "creating", "idle_since", "places", "record", "scheduler", "wanted")

    def __init__(self, vhost: str, record: GroupRecord, scheduler: Scheduler) -> None:
        super().__init__(vhost, record.queue, scheduler)
        self.record = record
        self.creating: Future[int] | None = None
        self.idle_since: float | None = None
        self.places: list[GroupPartition] = []
        self.wanted: ReaderFilter | None = None
        self.scheduler = scheduler
        self._has_looked = False

    def open(self, logs: Sequence[PartitionLog]) -> None:
        """Open the group on the partitions of its queue, in order."""
        self.places = [GroupPartition(log, self) for log in logs]
        self.partitions = list(self.places)

    def add_consumer(self, consumer: Consumer) -> None:
        """See `Dispatcher`."""
        super().add_consumer(consumer)
        self.idle_since = None

    def may_look(self) -> bool:
        """Whether to look for messages that match: once in a turn, and more often while there is time."""
        may_look = not self._has_looked or not self.scheduler.is_over()
        self._has_looked = True
        return may_look

    def _dispatch(self) -> None:
        self._has_looked = False
        super()._dispatch()
        if not self.consumers:
            return
        ready = 0
        for partition in self.partitions:
            own = partition.count_ready()
            ready += own
            if own <= 0:  # each for itself: others may have messages that nobody can read
                partition.log.when_visible(self.on_ready)
        if ready > 0 and self.wanted is not None and self.scheduler.is_over():
            self._go_on_later()

    @property
    def group(self) -> str:
        """See `ConsumerSource`."""
        return self.record.name

    @property
    def is_used(self) -> bool:
        """Whether the group has consumers, or delivered messages that are not settled."""
        return bool(self.consumers) or self.unacked > 0

    def pass_by(self, offsets: Mapping[int, int]) -> None:
        """Settle ready messages below an offset of each partition: they were read elsewhere."""
        self.idle_since = None
        for number, offset in offsets.items():
            partition = self.partitions[number]
            while passed := partition.withdraw(sys.maxsize, offset):
                partition.finish(*passed, Reason.ACKED)

    def hold(self, record: GroupRecord) -> None:
        """Apply a record with another limit of held bytes."""
        self.record = record
        for partition in self.places:
            partition.hold(record.hold_bytes)

    def __str__(self) -> str:
        return f"group '{self.record.name}' of queue '{self.name}' in vhost '{self.vhost}'"


class GroupPartition(QueuePartition):
    """A partition of a queue as a group sees it; retention may remove messages before the group reads them.

    Invariant: nothing below the cursor's low water is in `returned`.

    Attributes:
        lapsed: the last offsets [first, end) that the group lost to its limit; None: none since the start.
    """

    __slots__ = ("_group", "lapsed")

    def __init__(self, log: PartitionLog, group: ConsumerGroup) -> None:
        super().__init__(log, group.on_ready, group.record.cursor)
        self._group = group
        self.lapsed: tuple[int, int] | None = None
        log.overtaken[group.record.cursor] = self.overtaken
        self.hold(group.record.hold_bytes)

    def hold(self, bytes_max: int | None) -> None:
        """Let the log keep so many bytes for the group beyond its retention; None: all."""
        cursor = self._group.record.cursor
        self.log.held.pop(cursor, None)
        if bytes_max is not None:
            self.log.held[cursor] = Hold(bytes_max, self.lapse)

    def count_ready(self) -> int:
        """See `QueuePartition`; deliveries show offsets, so only visible messages are handed out."""
        ready: int = super().count_ready()
        return ready - (self.log.ready_end - self.log.visible_end)

    def take(self, count_max: int, bytes_max: int) -> Delivery | None:
        """See `QueuePartition`."""
        if not self.returned:
            count_max = min(count_max, self.log.visible_end - self.skip_settled())
            if count_max > 0 and self._group.wanted is not None:
                count_max = self._pass_unwanted(self._group.wanted, count_max)
            if count_max <= 0:
                return None
        delivery: Delivery | None = super().take(count_max, bytes_max)
        return delivery

    def _pass_unwanted(self, wanted: ReaderFilter, count_max: int) -> int:
        """Settle messages up to the next one that matches.

        They are visible, so no leader gives their offsets to others, which might match.

        Returns:
            How many neighbours match from there, at most `count_max`, which it is also when the next message is
            not in memory; 0: none does, or the turn is over.
        """
        scheduler = self._group.scheduler
        deadline = scheduler.shorten(LOOK_SECONDS)
        count = self._next_wanted(wanted, count_max)
        if count or not scheduler.is_over():
            scheduler.deadline = deadline
        return count

    def _next_wanted(self, wanted: ReaderFilter, count_max: int) -> int:
        log, is_over = self.log, self._group.scheduler.is_over
        while self._group.may_look() and (first := self.skip_settled()) < log.visible_end:
            batch = log.read(first)
            if batch is None or batch.base_offset > first:
                return count_max
            end = self.waiting_until(first, min(batch.end_offset, log.visible_end))
            index = first - batch.base_offset
            match, behind = wanted.next_match(
                batch.records, index, end - batch.base_offset, count_max, is_over
            )
            if match > index and (passed := self.withdraw(match - index, end)):
                self.finish(*passed, Reason.ACKED)
            if behind > match:
                return behind - match
        return 0

    @property
    def bytes_behind(self) -> int:
        """Bytes of the segments that the group has not passed."""
        return self.log.bytes_from(self.cursor.low_water)

    def lapse(self, end: int) -> None:
        """Settle as lost the messages below an offset: they exceed the limit of held bytes."""
        first = self.cursor.low_water
        if end > first:
            self._pass(end)
            self.lapsed = (first, end)
            log.warning(
                "%s: offsets %d to %d of partition %s are not held any more: they are more than %s bytes "
                "beyond the log's retention",
                self._group,
                first,
                end - 1,
                self.log.directory.name.rpartition("-")[2],
                self._group.record.hold_bytes,
            )

    def overtaken(self, end: int) -> None:
        """Settle as lost the unsettled messages below an offset: retention removes them."""
        lost = self._pass(end)
        if lost:
            log.warning("%s lost %d messages to the retention of its log", self._group, lost)

    def _pass(self, end: int) -> int:
        lost: int = self.cursor.settle(self.cursor.low_water, end, Reason.LOST)
        if not lost:
            return 0
        left = [(max(first, end), behind) for first, behind in self.returned if behind > end]
        self.returned = left
        self._returned_count = sum(behind - first for first, behind in left)
        self._no_longer_unused(0, end)
        self.next_offset = max(self.next_offset, end)
        self._settled_ahead = self.cursor.settled.count_from(self.next_offset, self.log.next_offset)
        return lost

    def give_back(self, first: int, end: int, reason: ReturnReason = ReturnReason.UNUSED) -> None:
        """See `DeliverySource`; messages that retention removed do not come back."""
        begin = min(max(first, self.cursor.low_water), end)
        self.in_flight -= begin - first
        if begin < end:
            super().give_back(begin, end, reason)
