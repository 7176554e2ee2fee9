# cython: annotation_typing=False, wraparound=True
# mypy: allow-untyped-decorators, no-warn-return-any, disable-error-code="index,name-defined"
"""The queue's view of one partition: ready, delivered and returned messages."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from operator import itemgetter
from typing import Protocol

import cython

from routelog.log_backend import EXPIRING, PartitionLog, Reason, SettledPart, Settlement
from routelog.log_backend.partitions.log_end import LogEnd
from routelog.log_backend.records.record_batch import RecordBatch, Records
from routelog.vhosts.counters.counters import ChangedCounters, MessageCounters
from routelog.vhosts.messages.delivery import Delivery, ReturnReason, fitting, new_delivery
from routelog.vhosts.messages.property_list import timestamp

PURGED_RANGES_MAX = 4_096  # remembered of a purge: more lie scattered among what is settled

_first = itemgetter(0)
_EXPIRING = cython.declare(cython.uint, EXPIRING)
_UNUSED = ReturnReason.UNUSED  # a look-up in the enum takes 0.07 us

UNCOUNTED = MessageCounters(ChangedCounters())  # of no queue


class PartitionRules(Protocol):
    """The rules of a queue, as its partitions see them."""

    def takeable(self, partition: "QueuePartition", count_max: int) -> int:
        """How many of the next messages may be handed out, at most `count_max`; 0: look again later.

        Expired messages at the head have left the queue when this returns.
        """

    def left(self, partition: "QueuePartition", first: int, end: int) -> None:
        """Messages [first, end) are not ready any more."""

    def returnable(
        self, partition: "QueuePartition", first: int, end: int, reason: ReturnReason
    ) -> Iterable[tuple[int, int]]:
        """The ranges of returned messages [first, end) that become ready; the rules keep the others."""

    def returned(self, partition: "QueuePartition", first: int, end: int) -> None:
        """Messages that were handed out are ready again."""

    @property
    def keeps_rejected(self) -> bool:
        """Rejected messages become dead letters: the rules settle them later."""

    def settling(self, partition: "QueuePartition", first: int, end: int, reason: Reason) -> bool:
        """Delivered messages are to be settled; returns whether the rules do that."""


class ReadyOrder(Protocol):
    """An order of a partition's ready messages other than that of its log.

    Attributes:
        count: messages that it has: all ready ones below the partition's `next_offset`.
    """

    @property
    def count(self) -> int:
        """See the class."""

    @property
    def is_over(self) -> bool:
        """Whether it has become that of the log, and nothing is left of what it was."""

    def has(self, offset: int) -> bool:
        """Whether it has a message."""

    def ranges(self) -> Iterable[tuple[int, int]]:
        """All that it has, [first, end), in any order."""

    def sort(self) -> bool:
        """Go on to find the order; returns whether it is known of all that is ready."""

    def when_sorted(self, done: Callable[[], None]) -> None:
        """Call `done` when it may be known of more."""

    def next_range(self) -> tuple[int, int, bool] | None:
        """The next messages that it has, [first, end), and whether they are redelivered; None: it has none."""

    def pass_head(self, end: int) -> None:
        """The messages of the head below an offset are ready no more."""

    def put_back(self, first: int, end: int) -> None:
        """Messages [first, end) are ready again."""

    def take_out(self, first: int, end: int) -> Sequence[tuple[int, int, bool]]:
        """Remove what it has of [first, end); returns the ranges as `next_range`, in order."""

    def clear(self) -> None:
        """Remove everything."""


@cython.cclass
class QueuePartition:
    """One partition of a queue, or of one consumer group's progress through it.

    Attributes:
        log: the partition's log.
        cursor: the settled offsets.
        next_offset: everything below was handed out, returned or settled.
        in_flight: messages handed out and neither settled nor returned.
        rules: of its queue; None: it has none.
        order: in which messages are ready; None: that of the log.
        counters: of its queue.
        on_expiring: called before a message with an expiration is handed out, of which the rules do not know,
            or there are none; None: they do, or there is no need.
        purged: ranges of the last purge, where the log keeps them; a restart forgets them.

    Unsettled messages that an earlier run handed out are ready, and marked redelivered; the cursor has the end
    of that range.

    Invariants: `returned` holds disjoint, ascending [first, end) ranges below `next_offset`, none if there is
    an `order`; `_withheld` holds such ranges of unsettled messages that were at or above it when they were
    withheld; `_unused` holds those of unsettled messages below it that no client was given at their last
    hand-out, if there was any, so that the next one is not counted, and says what that one said.
    """

    __slots__ = (
        "_notify",
        "_pauses",
        "_returned_count",
        "_settled_ahead",
        "_until_resumed",
        "_unused",
        "_withheld",
        "counters",
        "cursor",
        "delivered_before",
        "in_flight",
        "log",
        "next_offset",
        "on_expiring",
        "order",
        "purged",
        "returned",
        "rules",
    )

    def __init__(self, log: PartitionLog, on_ready: Callable[[], None], cursor: int = 0) -> None:
        self.log = log
        self.cursor = log.open_cursor(cursor)
        self.rules: PartitionRules | None = None
        self.order: ReadyOrder | None = None
        self.counters = UNCOUNTED
        self.on_expiring: Callable[[], None] | None = None
        self._notify = on_ready
        settled = self.cursor.settled
        self.next_offset = settled.low_water
        # The end of the offsets that an earlier run handed out
        self.delivered_before = self.cursor.handed_out
        self.in_flight = 0
        self.returned: list[tuple[int, int]] = []
        self._returned_count = 0
        self._pauses = 0  # whose returns have not all come back
        self._until_resumed: tuple[Callable[[], None], ...] = ()
        self._withheld: Sequence[tuple[int, int]] = ()
        self._unused: list[tuple[int, int]] | None = None  # an empty list takes 56 bytes
        self.purged: Sequence[tuple[int, int]] = ()
        self._settled_ahead = 0
        self.settled_ahead()

    def settled_ahead(self) -> None:
        """Count the settled and withheld messages at or above `next_offset`: they are not ready."""
        settled = self.cursor.settled
        self.next_offset = max(self.next_offset, settled.low_water)
        self._settled_ahead = 0
        if settled.chunks:
            self._settled_ahead = settled.count_from(self.next_offset, self.log.next_offset)
        for first, end in self._withheld:
            self._settled_ahead += max(0, end - max(first, self.next_offset))

    def on_ready(self) -> None:
        """See `DeliverySource`."""
        self._notify()

    def detach(self) -> None:
        """Drop the references to the deleted queue, so that no cycle is left to the garbage collector."""
        self.order = None  # which has the partition, too
        self._notify = _nobody
        self.on_expiring = None

    @property
    def number(self) -> int:
        """See `DeliverySource`."""
        number: int = self.log.number
        return number

    @property
    def ready(self) -> int:
        """Messages that wait for a consumer."""
        return self.count_ready()

    @cython.ccall
    @cython.returns(cython.longlong)
    @cython.exceptval(-1, check=True)
    def count_ready(self) -> int:
        """See `ready`; that of a group counts less."""
        held = self.next_offset + self._settled_ahead - self._returned_count
        if self.order is not None:
            held -= self.order.count
        return self.log.end_of_ready() - held

    def is_ready(self, offset: int) -> bool:
        """Whether an unsettled message waits for a consumer."""
        if offset >= self.next_offset:
            return offset < self.log.ready_end and self._waiting_from(offset) == offset
        if self.order is not None:
            return self.order.has(offset)
        at = bisect_right(self.returned, offset, key=_first)
        return at > 0 and offset < self.returned[at - 1][1]

    @property
    def oldest_time(self) -> int | None:
        """When the oldest unsettled message came, or shortly before (us since 1970); None: there is none.

        Of a stream, which settles nothing, the oldest message of all.
        """
        first = self.log.first_offset
        if self.cursor.number or not self.log.is_stream:
            first = max(self.cursor.low_water, first)
        return self.log.time_at(first)

    @property
    def at_damage(self) -> bool:
        """The next message lies at or behind damage: it is not handed out."""
        following: tuple[int, ...] | None = self.returned[0] if self.returned else None
        if self.order is not None:
            following = self.order.next_range()
        first = self.skip_settled() if following is None else following[0]
        return self.log.is_blocked(first)

    def _order(self) -> ReadyOrder | None:
        if self.order is not None and self.order.is_over:
            self.order = None
        return self.order

    @property
    def unreadable(self) -> bool:
        """The last read of the next message failed."""
        return self.log.read_error is not None and self.at_damage

    @cython.ccall
    @cython.locals(
        count_max=cython.longlong,
        bytes_max=cython.longlong,
        first=cython.longlong,
        end=cython.longlong,
        log=LogEnd,
        batch=RecordBatch,
        records=Records,
        index=cython.Py_ssize_t,
        count=cython.Py_ssize_t,
        redelivered=cython.bint,
        is_counted=cython.bint,
    )
    def take(self, count_max: int, bytes_max: int) -> Delivery | None:
        """Hand out the next messages of one batch, returned messages first.

        Args:
            bytes_max: of bodies; the first message may be larger.

        Returns:
            None when nothing is ready in memory: at the end, or while it is loaded or paused; `on_ready`
            is called then.
        """
        if self._pauses:
            return None
        order = None if self.order is None else self._order()
        if order is not None and not order.sort():
            order.when_sorted(self.on_ready)
            return None
        if self.rules is not None:
            count_max = self.rules.takeable(self, count_max)
            if not count_max:
                return None
        log, redelivered = self.log, False
        if order is not None:
            following = order.next_range()
            if following is None:
                return None
            first, end, redelivered = following
        elif self.returned:
            first, end = self.returned[0]
        else:
            first, end = self.skip_settled(), log.end_of_ready()
            if first >= end:
                return None
            if first < self.delivered_before < end:
                end = self.delivered_before
        batch = log.in_memory(first)
        if batch is None:
            batch = self.log.read(first)
        if batch is None:
            self.log.load(first, self.on_ready)
            return None
        if batch.base_offset > first:
            self.lose(first, min(batch.base_offset, end))
            return self.take(count_max, bytes_max)
        if batch.records.attributes & _EXPIRING and self.on_expiring is not None:
            self.on_expiring()
            return self.take(count_max, bytes_max)
        end = min(end, batch.end_offset, first + count_max)
        records, index, count = batch.records, first - batch.base_offset, end - first
        if records.batch_bytes > bytes_max:
            count = fitting(records, index, count, bytes_max)
        is_counted = True
        if self._unused and (order is not None or self.returned):
            count, is_counted = self._alike(first, count)
        if order is not None:
            order.pass_head(first + count)
            self.cursor.hand_out(first + count)
        elif self.returned:
            redelivered = True
            self._take_returned(count)
        else:
            redelivered = first < self.delivered_before
            if self._settled_ahead:
                count = self.waiting_until(first, first + count) - first
            self.next_offset = first + count
            self.cursor.hand_out(first + count)
        if not is_counted:
            self._no_longer_unused(first, first + count)
            redelivered = self.cursor.delivery_counts[first] > 0
        elif redelivered:
            self.cursor.redeliver(first, first + count)
        if self.rules is not None:
            self.rules.left(self, first, first + count)
        self.in_flight += count
        return new_delivery(self, records, index, count, first, redelivered)

    @cython.ccall
    @cython.locals(first=cython.longlong, end=cython.longlong, log=LogEnd)
    def settle(self, first: int, end: int, reason: Reason = Reason.ACKED) -> None:
        """Be done with messages that were handed out."""
        self.in_flight -= end - first
        log = self.log
        if log.closed:
            return  # another queue of the same name may have its files
        if self.rules is not None and self.rules.settling(self, first, end, reason):
            return
        self.cursor.settle(first, end, reason)
        if not log.free_below(self.cursor.settled.low_water):
            self.log.release()

    def settlement(self, ranges: Sequence[tuple[int, int]], reason: Reason) -> SettledPart | None:
        """See `DeliverySource`."""
        kept = reason is Reason.REJECTED and self.rules is not None and self.rules.keeps_rejected
        if kept or self.log.closed or not self.log.durable:
            return None
        return SettledPart(self.log.number, Settlement(self.cursor.number, ranges, reason))

    def committed(self, settled: Sequence[SettledPart]) -> None:
        """See `DeliverySource`."""
        if not self.log.closed:
            self.cursor.will_settle(settled)

    def carried_out(self, settled: Sequence[SettledPart]) -> None:
        """See `DeliverySource`."""
        self.cursor.has_settled(settled)

    def finish(self, first: int, end: int, reason: Reason) -> None:
        """Settle messages that were withdrawn, or whose settlement the rules took over."""
        if not self.log.closed:
            self.cursor.settle(first, end, reason)
            self.log.release()

    def give_back(self, first: int, end: int, reason: ReturnReason = ReturnReason.UNUSED) -> None:
        """Make messages ready again that were handed out, in their old place."""
        self.in_flight -= end - first
        if reason is _UNUSED:
            self._mark_unused(first, end)
            self.make_ready(first, end)
            if self.rules is not None:
                self.rules.returned(self, first, end)
            return
        if self.rules is None:
            self.make_ready(first, end)
            return
        for returned in self.rules.returnable(self, first, end, reason):
            self.make_ready(*returned)
            self.rules.returned(self, *returned)

    def pause(self) -> None:
        """See `DeliverySource`."""
        self._pauses += 1

    def resume(self) -> None:
        """See `DeliverySource`."""
        self._pauses -= 1
        if self._pauses:
            return
        waiting, self._until_resumed = self._until_resumed, ()
        for done in waiting:
            done()
        self.on_ready()

    def redeliver(
        self, first: int, end: int, bytes_max: int, when_loaded: Callable[[], None]
    ) -> tuple[int, Sequence[Delivery]] | None:
        """See `DeliverySource`; messages that cannot be read any more are returned."""
        batch = None if self.log.closed else self.log.read(first)
        if batch is None or batch.base_offset > first:
            if batch is None and not self.log.closed and self.log.needs_load(first):
                self.log.load(first, when_loaded)
                return None
            self.give_back(first, end, ReturnReason.RETURNED)
            self.on_ready()
            return end - first, ()
        index = first - batch.base_offset
        count = fitting(batch.records, index, min(end, batch.end_offset) - first, bytes_max)
        again = [(first, first + count)]
        if self.rules is not None:
            again = list(self.rules.returnable(self, *again[0], ReturnReason.RETURNED))
            self.in_flight -= count - sum(stop - begin for begin, stop in again)
        return count, [self._hand_out_again(batch, *each) for each in again]

    def _hand_out_again(self, batch: RecordBatch, first: int, end: int) -> Delivery:
        self.cursor.redeliver(first, end)
        index = first - batch.base_offset
        return Delivery(self, batch.records, index, end - first, first, redelivered=True)

    def make_ready(self, first: int, end: int) -> None:
        """Put returned messages into their old place."""
        if self.order is not None:
            self.order.put_back(first, end)
            return
        self._returned_count += end - first
        put_in(self.returned, first, end)

    def take_returned_ranges(self) -> list[tuple[int, int]]:
        """Remove and return the ranges that came back: an order has them from here on."""
        ranges, self.returned, self._returned_count = self.returned, [], 0
        return ranges

    def delivery_count(self, offset: int) -> int:
        """How often an unsettled message was delivered again, the last delivery included.

        The cursor counts returns; a ready message was returned once more.
        """
        return self.cursor.delivery_counts[offset]

    @property
    def head(self) -> tuple[int, int] | None:
        """The next ready messages, [first, end), all in a row; None: there are none, or none known."""
        order = self._order()
        if order is not None:
            following = order.next_range() if order.sort() else None
            return None if following is None else following[:2]
        if self.returned:
            return self.returned[0]
        first, end = self.skip_settled(), self.log.ready_end
        if first >= end:
            return None
        if self._settled_ahead:
            end = self.waiting_until(first, end)
        return first, end

    @property
    def head_timestamp(self) -> int | None:
        """The timestamp of the next ready message; None: it has none, or is not in memory."""
        head = self.head
        batch = None if head is None else self.log.read(head[0])
        if head is None or batch is None or batch.base_offset > head[0]:
            return None
        return timestamp(batch.records.properties(head[0] - batch.base_offset))

    def prepare(self, done: Callable[[], None]) -> bool:
        """Call `done` when the next message may be in memory, and may be taken: look again then.

        Returns:
            False when there is nothing to wait for; `done` is not called then.
        """
        if self._pauses:
            self._until_resumed += (done,)
            return True
        order = self._order()
        if order is not None and not order.sort():
            order.when_sorted(done)
            return True
        offset = self.returned[0][0] if self.returned else self.next_offset
        if order is not None and (following := order.next_range()) is not None:
            offset = following[0]
        if not self.log.needs_load(offset):
            return False
        self.log.load(offset, done)
        return True

    def withdraw(self, count: int, below: int) -> tuple[int, int] | None:
        """Take messages off the head without delivering them; `finish` settles them.

        Args:
            below: only those with lower offsets.

        Returns:
            The range that was taken; there may be more. None: there is no such message.
        """
        head = self.head
        # A repair may bring back the messages behind the damage
        below = min(below, self.log.blocked_from)
        if head is None or head[0] >= below:
            return None
        first = head[0]
        end = min(head[1], first + count, below)
        if self.order is not None:
            self.order.pass_head(end)
        elif self.returned:
            self._take_returned(end - first)
        else:
            self.next_offset = end
        self._no_longer_unused(first, end)
        if self.rules is not None:
            self.rules.left(self, first, end)
        return first, end

    def ready_ranges(self) -> Iterator[tuple[int, int]]:
        """All ready ranges [first, end)."""
        yield from self.returned if self.order is None else self.order.ranges()
        yield from self._waiting_between(self.next_offset, self.log.ready_end)

    def purge(self) -> int:
        """Settle all ready messages; returns how many."""
        if self.log.keeps_log:
            self.purged = list(islice(self.ready_ranges(), PURGED_RANGES_MAX))
        count = self.ready
        if self.rules is not None:
            for first, end in self.ready_ranges():
                self.rules.left(self, first, end)
        ahead = self.take_returned_ranges() if self.order is None else self.order.ranges()
        for first, end in ahead:
            self._no_longer_unused(first, end)
            self.cursor.settle(first, end, Reason.PURGED)
        if self.order is not None:
            self.order.clear()
        end = self.log.ready_end
        self.cursor.settle(self.next_offset, end, Reason.PURGED)
        self.next_offset = end
        self.settled_ahead()
        self.log.release()
        return count

    @cython.ccall
    @cython.returns(cython.longlong)
    @cython.exceptval(-1, check=True)
    @cython.locals(offset=cython.longlong)
    def skip_settled(self) -> int:
        """Move `next_offset` to the next message that is neither settled nor withheld, and return it."""
        if self._settled_ahead:
            offset = self._waiting_from(self.next_offset)
            self._settled_ahead -= offset - self.next_offset
            self.next_offset = offset
        return self.next_offset

    # -- messages that are taken out of their order

    def withhold(self, first: int, end: int) -> list[tuple[int, int]]:
        """Take the ready messages of [first, end) away from consumers, wherever they stand.

        They are in flight; `WithheldMessages` settles them, or puts them back. Neither order nor `redelivered`
        of the others changes.

        Returns:
            The ranges that were ready, in order.
        """
        taken = self._take_below(first, min(end, self.next_offset))
        end = min(end, self.log.ready_end, self.log.blocked_from)
        ahead = list(self._waiting_between(max(first, self.next_offset), end))
        if ahead:
            self._withheld = withheld = list(self._withheld)
            for each in ahead:
                insort(withheld, each)
            self._settled_ahead += sum(behind - begin for begin, behind in ahead)
        taken += ahead
        for begin, behind in taken:
            self.in_flight += behind - begin
            if self.rules is not None:
                self.rules.left(self, begin, behind)
        return taken

    def let_go(self, first: int, end: int) -> None:
        """Withheld messages [first, end) are settled next."""
        self._no_longer_withheld(first, end)
        self._no_longer_unused(first, end)

    def _no_longer_withheld(self, first: int, end: int) -> list[tuple[int, int]]:
        # Returns which of them were at or above `next_offset`.
        withheld = list(self._withheld)
        ahead = cut_out(withheld, first, end)
        self._withheld = withheld or ()
        return ahead

    def put_back(self, first: int, end: int) -> None:
        """Make withheld messages [first, end) ready again, in their old place."""
        ahead = self._no_longer_withheld(first, end)
        self.in_flight -= end - first
        middle = min(max(first, self.next_offset), end)
        for begin, behind in self._unsettled(first, middle):  # others were purged meanwhile
            self.make_ready(begin, behind)
        for begin, behind in ahead:
            for each in self._unsettled(max(begin, self.delivered_before), min(behind, middle)):
                self._mark_unused(*each)
        self._settled_ahead -= end - middle
        if self.rules is not None:
            self.rules.returned(self, first, end)
        self.on_ready()

    def _mark_unused(self, first: int, end: int) -> None:
        if self._unused is None:
            self._unused = []
        put_in(self._unused, first, end)

    def _no_longer_unused(self, first: int, end: int) -> None:
        if self._unused is not None:
            cut_out(self._unused, first, end)
            self._unused = self._unused or None

    def _alike(self, first: int, count: int) -> tuple[int, bool]:
        # How many of the next messages have a hand-out that says the same, and whether it is counted.
        unused, end = self._unused or [], first + count
        at = bisect_right(unused, first, key=_first)
        if at and first < unused[at - 1][1]:
            end = min(end, unused[at - 1][1])
            again = self.cursor.delivery_counts.reaching(first, end, 1)
            if again:
                end = again[0][1] if again[0][0] == first else again[0][0]
            return end - first, False
        if at < len(unused):
            end = min(end, unused[at][0])
        return end - first, True

    def _take_below(self, first: int, end: int) -> list[tuple[int, int]]:
        # What is ready of [first, end), below `next_offset`.
        if self.order is not None:
            below = self.order.take_out(first, end)
            for begin, behind, redelivered in below:
                if not redelivered:
                    self._mark_unused(begin, behind)
            return [each[:2] for each in below]
        taken = cut_out(self.returned, first, end)
        self._returned_count -= sum(behind - begin for begin, behind in taken)
        return taken

    def _unsettled(self, first: int, end: int) -> Iterator[tuple[int, int]]:
        settled = self.cursor.settled
        while (first := settled.unsettled_from(first)) < end:
            behind = settled.settled_from(first, end)
            yield first, behind
            first = behind

    def _waiting_between(self, first: int, end: int) -> Iterator[tuple[int, int]]:
        # At or above `next_offset`: ranges that are neither settled nor withheld.
        while (first := self._waiting_from(first)) < end:
            behind = self.waiting_until(first, end)
            yield first, behind
            first = behind

    def _waiting_from(self, offset: int) -> int:
        settled, withheld = self.cursor.settled, self._withheld
        offset = settled.unsettled_from(offset)
        while withheld and (at := bisect_right(withheld, offset, key=_first)):
            if offset >= withheld[at - 1][1]:
                break
            offset = settled.unsettled_from(withheld[at - 1][1])
        return offset

    def waiting_until(self, offset: int, end: int) -> int:
        """Where the messages end that wait in a row from an offset on; `end` at most."""
        end = self.cursor.settled.settled_from(offset, end)
        withheld = self._withheld
        at = bisect_left(withheld, offset, key=_first) if withheld else 0
        return min(end, withheld[at][0]) if at < len(withheld) else end

    def _take_returned(self, count: int) -> None:
        first, end = self.returned[0]
        if first + count == end:
            self.returned.pop(0)
        else:
            self.returned[0] = (first + count, end)
        self._returned_count -= count

    def lose(self, first: int, end: int) -> None:
        """No batch holds these offsets, which are the next ones: transient messages of an earlier run."""
        self._no_longer_unused(first, end)
        if self.rules is not None:
            self.rules.left(self, first, end)
        if self.order is not None and first < self.next_offset:
            self.order.take_out(first, end)
            self.cursor.settle(first, end, Reason.LOST)
        elif self.returned:
            self._take_returned(end - first)
            self.cursor.settle(first, end, Reason.LOST)
        else:
            self._settled_ahead += self.cursor.settle(first, end, Reason.LOST)
        self.log.release()


def _nobody() -> None:
    pass


def put_in(ranges: list[tuple[int, int]], first: int, end: int) -> None:
    """Add [first, end) to disjoint, ascending ranges that have nothing of it; neighbours are one."""
    at = bisect_left(ranges, (first, end))
    if at > 0 and ranges[at - 1][1] == first:
        at -= 1
        first = ranges.pop(at)[0]
    if at < len(ranges) and ranges[at][0] == end:
        end = ranges.pop(at)[1]
    ranges.insert(at, (first, end))


def cut_out(ranges: list[tuple[int, int]], first: int, end: int) -> list[tuple[int, int]]:
    """Remove [first, end) from disjoint, ascending ranges; returns what of it was there."""
    if first >= end:
        return []
    at = max(0, bisect_right(ranges, first, key=_first) - 1)
    stop = bisect_left(ranges, end, lo=at, key=_first)
    taken: list[tuple[int, int]] = []
    left: list[tuple[int, int]] = []
    for begin, behind in ranges[at:stop]:
        taken.append((max(begin, first), min(behind, end)))
        left += ((begin, min(behind, first)), (max(begin, end), behind))
    ranges[at:stop] = [(begin, behind) for begin, behind in left if begin < behind]
    return [(begin, behind) for begin, behind in taken if begin < behind]
