# cython: annotation_typing=False
# mypy: allow-untyped-decorators, no-warn-return-any, disable-error-code="index,name-defined"
"""A delivery: a slice of a record batch, handed to one consumer."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Protocol

import cython

from routelog.log_backend import Reason, SettledPart
from routelog.log_backend.records.record_batch import Records
from routelog.vhosts.counters.counters import MessageCounters


class ReturnReason(Enum):
    """Why delivered messages come back to their queue; sessions send the numbers.

    RabbitMQ's quorum queues count the first kind as failures of the consumer. What comes back counts as
    delivered when it is handed out again, but for the third kind; only the first two can be too often.
    """

    FAILED = 1  # rejected, or their channel ended
    RETURNED = 2  # nacked, recovered, or not settled in time
    UNUSED = 3  # no client was given them
    EXCUSED = 4  # a client may have been, and is not to blame: its node is gone, or an operator looked at them


class DeliverySource(Protocol):
    """The source of deliveries: a partition of a queue, or a reader of its log."""

    @property
    def counters(self) -> MessageCounters:
        """The counters of the queue."""

    @property
    def number(self) -> int:
        """The number of the partition."""

    @property
    def ready(self) -> int:
        """Messages that wait for a consumer."""

    def on_ready(self) -> None:
        """Dispatch what is ready after this turn."""

    def settle(self, first: int, end: int, reason: Reason = Reason.ACKED) -> None:
        """Settle messages that were handed out."""

    def settlement(self, ranges: Sequence[tuple[int, int]], reason: Reason) -> SettledPart | None:
        """The journal entry of a settlement that is committed before it is carried out; None: none."""

    def committed(self, settled: Sequence[SettledPart]) -> None:
        """The settlement is in the journal, so snapshots must include it; `carried_out` follows."""

    def carried_out(self, settled: Sequence[SettledPart]) -> None:
        """A committed settlement was carried out."""

    def give_back(self, first: int, end: int, reason: ReturnReason = ReturnReason.UNUSED) -> None:
        """Make delivered messages ready again, in their old place."""

    def pause(self) -> None:
        """Hand out nothing before as many calls of `resume`: several returns follow, in one order."""

    def resume(self) -> None:
        """All returns are done: dispatch after this turn."""

    def redeliver(
        self, first: int, end: int, bytes_max: int, when_loaded: Callable[[], None]
    ) -> tuple[int, Sequence["Delivery"]] | None:
        """Deliver unacknowledged messages again, to the same consumer (`basic.recover`).

        Args:
            bytes_max: of bodies; the first message may be larger.
            when_loaded: called when `redeliver` is to be called again.

        Returns:
            How many messages from `first` on this call covered, at least one, and the deliveries; messages
            above the delivery limit, or in back-off, are covered and not delivered. None: messages must be
            loaded first.
        """

    def delivery_count(self, offset: int) -> int:
        """How often an unsettled message was delivered again, the last delivery included."""


@cython.final
@cython.cclass
class Delivery:
    """Neighbouring records of one batch, handed to one consumer.

    Attributes:
        partition: the source, which settles or returns the messages.
        records: content of the batch.
        index: of the first record in the batch.
        count: records handed out.
        offset: of the first record in the partition's log.
        redelivered: they were handed out before.
        partition_index: of the partition they were read from, when the queue has several; else None.
    """

    __slots__ = (
        "count",
        "index",
        "offset",
        "partition",
        "partition_index",
        "records",
        "redelivered",
    )

    def __init__(
        self,
        partition: DeliverySource,
        records: Records,
        index: int,
        count: int,
        offset: int,
        redelivered: bool,
    ) -> None:
        self.partition = partition
        self.records = records
        self.index = index
        self.count = count
        self.offset = offset
        self.redelivered = redelivered
        self.partition_index: int | None = None


@cython.ccall
@cython.returns(Delivery)
@cython.locals(
    records=Records,
    index=cython.Py_ssize_t,
    count=cython.Py_ssize_t,
    offset=cython.longlong,
    redelivered=cython.bint,
    delivery=Delivery,
)
def new_delivery(
    partition: DeliverySource,
    records: Records,
    index: int,
    count: int,
    offset: int,
    redelivered: bool,
) -> Delivery:
    """As the constructor: the same for compiled callers, without the cost of a Python call."""
    delivery = Delivery.__new__(Delivery)
    delivery.partition = partition
    delivery.records = records
    delivery.index = index
    delivery.count = count
    delivery.offset = offset
    delivery.redelivered = redelivered
    delivery.partition_index = None
    return delivery


def put_back(delivery: Delivery) -> None:
    """Return a delivery that nobody was told of to its queue."""
    delivery.partition.give_back(delivery.offset, delivery.offset + delivery.count)
    delivery.partition.on_ready()


def body_bytes(records: Records, index: int, count: int) -> int:
    """Bytes of the bodies of some neighbouring records of a batch."""
    offsets = records.offset_columns()
    return offsets[index + count] - offsets[index]


def fitting(records: Records, index: int, count: int, bytes_max: int) -> int:
    """How many records of a batch fit into so many bytes of bodies; at least one."""
    if records.bodies_bytes + records.properties_bytes <= bytes_max:
        return count
    offsets = records.offset_columns()
    limit = offsets[index] + bytes_max
    return max(1, min(count, bisect_right(offsets, limit, index, index + count + 1) - 1 - index))
