"""A consumer group: consumers that compete for all messages of a log, with progress of their own."""

import logging
import sys
from asyncio import Future
from collections.abc import Mapping, Sequence

from log_backend import PartitionLog, Reason
from vhosts.comeback import Comeback
from vhosts.consumer import Consumer
from vhosts.dispatcher import HEADED_BYTES_MIN, Dispatcher
from vhosts.group_record import GroupRecord
from vhosts.queue_partition import QueuePartition
from vhosts.timer import CallSoon

log = logging.getLogger(__name__)


class ConsumerGroup(Dispatcher):
    """One group of a queue that keeps its log. To its consumers it is a queue.

    Attributes:
        record: as it is stored, or would be.
        creating: done when its record is durable; None from then on.
        idle_since: monotonic seconds; None while it is used, or nobody has looked yet.
    """

    __slots__ = ("creating", "idle_since", "record")

    message_bytes_min = HEADED_BYTES_MIN

    def __init__(self, vhost: str, record: GroupRecord, call_soon: CallSoon) -> None:
        super().__init__(vhost, record.queue, call_soon)
        self.record = record
        self.creating: Future[int] | None = None
        self.idle_since: float | None = None

    def open(self, logs: Sequence[PartitionLog]) -> None:
        """Look at the partitions of its queue, in order."""
        self.partitions = [GroupPartition(log, self) for log in logs]

    def add_consumer(self, consumer: Consumer) -> None:
        """See `Dispatcher`."""
        super().add_consumer(consumer)
        self.idle_since = None

    @property
    def is_used(self) -> bool:
        """It has consumers, or messages that one had and that may still be acknowledged."""
        return bool(self.consumers) or self.unacked > 0

    def pass_by(self, offsets: Mapping[int, int]) -> None:
        """Settle, by partition, what is ready below an offset: somebody has read it elsewhere."""
        self.idle_since = None
        for number, offset in offsets.items():
            partition = self.partitions[number]
            while passed := partition.withdraw(sys.maxsize, offset):
                partition.finish(*passed, Reason.ACKED)

    def __str__(self) -> str:
        return f"group '{self.record.name}' of queue '{self.name}' in vhost '{self.vhost}'"


class GroupPartition(QueuePartition):
    """A partition of a queue as a group sees it; a forced retention may overtake it.

    Invariant: nothing below the cursor's low water is in `returned`.
    """

    __slots__ = ("_group",)

    def __init__(self, log: PartitionLog, group: ConsumerGroup) -> None:
        super().__init__(log, group.wake, group.record.cursor)
        self._group = group
        log.overtaken[group.record.cursor] = self.overtaken

    def overtaken(self, end: int) -> None:
        """Settle as lost what is not settled below an offset: retention removes it."""
        lost = self.cursor.settle(self.cursor.low_water, end, Reason.LOST)
        if not lost:
            return
        left = [(max(first, end), behind) for first, behind in self.returned if behind > end]
        self.returned = left
        self._returned_count = sum(behind - first for first, behind in left)
        self.next_offset = max(self.next_offset, end)
        self._settled_ahead = self.cursor.settled.count_from(self.next_offset, self.log.next_offset)
        log.warning("%s lost %d messages to the retention of its log", self._group, lost)

    def give_back(self, first: int, end: int, comeback: Comeback = Comeback.UNUSED) -> None:
        """See `DeliverySource`; what retention took meanwhile does not come back."""
        begin = min(max(first, self.cursor.low_water), end)
        self.in_flight -= begin - first
        if begin < end:
            super().give_back(begin, end, comeback)
