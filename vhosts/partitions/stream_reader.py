"""A consumer that reads a queue's log by offset; it settles nothing and does not affect the queue.

Source: RabbitMQ's streams, as consumers of AMQP 0-9-1 see them (`x-stream-offset`).
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from routelog.exchanges import field_type
from routelog.log_backend import PartitionLog, Reason, Scheduler, SettledPart
from routelog.vhosts.arguments.argument_checks import age_microseconds
from routelog.vhosts.counters.counters import MessageCounters
from routelog.vhosts.errors import InvalidStreamOffset
from routelog.vhosts.filters.reader_filter import LOOK_SECONDS, ReaderFilter
from routelog.vhosts.messages.consumer import Consumer
from routelog.vhosts.messages.delivery import Delivery, ReturnReason, fitting


@dataclass(frozen=True, slots=True)
class StreamPosition:
    """Where a reader begins: at an offset, there with a batch of a time (us since 1970) or later.

    All batches behind that one are read: a clock may be set back.
    """

    offset: int
    not_before: int = 0


def stream_position(log: PartitionLog, wanted: object, now: int) -> StreamPosition:
    """The position that an `x-stream-offset` means in a log at this moment.

    Args:
        wanted: "first", "last", "next", an offset (above the end: the end), -n for the last n records, a
            timestamp, or an interval such as "1h".
        now: microseconds since 1970.

    Raises:
        InvalidStreamOffset: it is none of these.
    """
    if isinstance(wanted, datetime):
        return _position_at(log, int(wanted.timestamp() * 1_000_000))
    if isinstance(wanted, int) and not isinstance(wanted, bool):
        if wanted > log.next_offset:  # of an earlier log, or the log has lost its newest records
            return StreamPosition(log.visible_end)
        # May be above what is visible: a reader may have seen that before a change of leader.
        offset = wanted if wanted >= 0 else log.visible_end + wanted
        return StreamPosition(max(log.lowest_offset, offset))
    if wanted == "first":
        return StreamPosition(log.lowest_offset)
    if wanted == "last":
        return StreamPosition(log.last_batch_offset)
    if wanted == "next":
        return StreamPosition(log.visible_end)
    age = age_microseconds(wanted)
    if age is None:
        raise InvalidStreamOffset(wanted, field_type(wanted))
    return _position_at(log, now - age)


def when_located(log: PartitionLog, wanted: object, now: int) -> asyncio.Future[None] | None:
    """Wait until remote storage has told where `stream_position` is to begin; None: it is known."""
    if isinstance(wanted, datetime):
        return log.when_located(int(wanted.timestamp() * 1_000_000))
    age = age_microseconds(wanted) if isinstance(wanted, str) else None
    return None if age is None else log.when_located(now - age)


def _position_at(log: PartitionLog, time: int) -> StreamPosition:
    offset, end = log.offset_at(time), log.visible_end
    return StreamPosition(offset, time) if offset < end else StreamPosition(end)


class StreamReader:
    """The reader of one consumer in one log.

    Attributes:
        consumer: takes the deliveries; its acks only give it credit.
        log: what it reads.
        counters: of its queue.
        next_offset: of the next record to hand out.
        keeps_up: it was given all that there was at its last turn; set by its queue.
        in_flight: delivered and not acknowledged; the consumer is told of damage when these are 0.

    Args:
        scheduler: whose running step a reader with a filter ends early.
        wanted: which records it is given; None: all.
    """

    __slots__ = (
        "_not_before",
        "_scheduler",
        "_wake",
        "_wanted",
        "consumer",
        "counters",
        "in_flight",
        "keeps_up",
        "log",
        "next_offset",
    )

    def __init__(
        self,
        log: PartitionLog,
        consumer: Consumer,
        position: StreamPosition,
        wake: Callable[[], None],
        counters: MessageCounters,
        scheduler: Scheduler,
        wanted: ReaderFilter | None = None,
    ) -> None:
        self.log = log
        self.counters = counters
        self._wake = wake
        self._scheduler = scheduler
        self._wanted = wanted
        self._not_before = position.not_before
        self.consumer = consumer
        self.next_offset = position.offset
        self.in_flight = 0
        self.keeps_up = False

    @property
    def places(self) -> list[int]:
        """Offset of the next record, as that of all partitions."""
        return [self.next_offset]

    @property
    def number(self) -> int:
        """See `DeliverySource`."""
        return self.log.number

    @property
    def ready(self) -> int:
        """See `DeliverySource`."""
        return max(0, self.log.visible_end - self.next_offset)

    @property
    def at_damage(self) -> bool:
        """The next record lies at or behind damage: it is not handed out."""
        return self.log.is_blocked(self.next_offset)

    @property
    def unreadable(self) -> bool:
        """The last read of the next record failed, and all records before it are acknowledged."""
        return self.log.read_error is not None and not self.in_flight and self.at_damage

    @property
    def stopped(self) -> bool:
        """The next record cannot be read, and all records before it are acknowledged."""
        return self.at_damage and not self.in_flight

    def on_ready(self) -> None:
        """See `DeliverySource`."""
        self._wake()

    def wait(self) -> None:
        """At the end: wake the reader when records come or are loaded."""
        self.log.when_visible(self._wake)

    def settle(self, first: int, end: int, reason: Reason = Reason.ACKED) -> None:
        """See `DeliverySource`: records stay in the log."""
        self.in_flight -= end - first

    def settlement(self, ranges: Sequence[tuple[int, int]], reason: Reason) -> None:
        """See `DeliverySource`: nothing is settled."""

    def committed(self, settled: Sequence[SettledPart]) -> None:
        """See `DeliverySource`: nothing is."""

    def carried_out(self, settled: Sequence[SettledPart]) -> None:
        """See `DeliverySource`."""

    def give_back(self, first: int, end: int, reason: ReturnReason = ReturnReason.UNUSED) -> None:
        """See `DeliverySource`: records are not delivered again."""
        self.in_flight -= end - first

    def pause(self) -> None:
        """See `DeliverySource`: nothing comes back."""

    def resume(self) -> None:
        """See `DeliverySource`."""
        self._wake()

    def redeliver(
        self, first: int, end: int, bytes_max: int, when_loaded: Callable[[], None]
    ) -> tuple[int, Sequence[Delivery]] | None:
        """See `DeliverySource`; records that retention removed, or that are damaged, are left out."""
        batch = self.log.read(first)
        if batch is None and self.log.needs_load(first):
            self.log.load(first, when_loaded)
            return None
        gone = min(end, end if batch is None else batch.base_offset)
        if gone > first or batch is None:
            self.give_back(first, gone)
            return gone - first, ()
        index = first - batch.base_offset
        count = fitting(batch.records, index, min(end, batch.end_offset) - first, bytes_max)
        return count, (Delivery(self, batch.records, index, count, first, redelivered=True),)

    def delivery_count(self, offset: int) -> int:
        """See `DeliverySource`: nothing is delivered again."""
        return 0

    def take(self, count_max: int, bytes_max: int) -> Delivery | None:
        """Hand out the next records of one batch that match.

        Returns:
            None at the end, while records are loaded, or when the turn is over.
        """
        if self._wanted is None:
            return self._take(count_max, bytes_max)
        deadline = self._scheduler.shorten(LOOK_SECONDS)
        delivery = self._take(count_max, bytes_max)
        if delivery is not None or not self._scheduler.is_over():
            self._scheduler.deadline = deadline
        return delivery

    def _take(self, count_max: int, bytes_max: int) -> Delivery | None:
        end = self.log.visible_end
        while self.next_offset < end:
            # Records that retention removed are skipped.
            self.next_offset = max(self.next_offset, self.log.lowest_offset)
            batch = self.log.read(self.next_offset)
            if batch is None:
                if self.log.needs_load(self.next_offset):
                    self.log.load(self.next_offset, self._wake)
                return None
            if batch.base_offset >= end:
                return None
            if batch.records.last_time < self._not_before:
                begin = self.log.offset_at(self._not_before)  # by now it may be known where that is
                self.next_offset = max(batch.end_offset, begin)
                continue
            self._not_before = 0
            first = max(self.next_offset, batch.base_offset)
            index, behind = first - batch.base_offset, batch.records.count
            if self._wanted is not None:
                index, behind = self._wanted.next_match(
                    batch.records, index, behind, count_max, self._scheduler.is_over
                )
                self.next_offset = first = batch.base_offset + index
                if index == behind:
                    if self._scheduler.is_over():
                        return None
                    continue
            count = fitting(batch.records, index, min(count_max, behind - index), bytes_max)
            self.next_offset = first + count
            self.in_flight += count
            return Delivery(self, batch.records, index, count, first, redelivered=False)
        return None
