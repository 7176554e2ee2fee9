# cython: annotation_typing=False, wraparound=True
# mypy: allow-untyped-decorators, no-warn-return-any, disable-error-code="index,name-defined"
"""Dispatch of ready messages to consumers: round robin, by credit and priority."""

from bisect import insort
from collections import deque
from collections.abc import Callable, Collection
from itertools import chain

import cython

from routelog.log_backend import Lane, Scheduler
from routelog.log_backend.records.record_batch import Records
from routelog.vhosts.errors import (
    ConsumptionRefused,
    QueueQuarantined,
    QueueStopped,
    QueueUnreadable,
)
from routelog.vhosts.messages.consumer import Consumer
from routelog.vhosts.messages.delivery import Delivery
from routelog.vhosts.partitions.queue_partition import QueuePartition
from routelog.vhosts.queues.backlog import Backlog
from routelog.vhosts.queues.credit_ring import CreditRing

DELIVERY_BYTES_MAX = 262_144  # of one delivery: a batch of large messages goes out in pieces
TURN_BYTES_MAX = 1_048_576  # of one dispatch: then other queues have their turn
DELIVERY_BYTES_MIN = 8_192  # the least that a delivery counts for: handing it out takes as long
DELIVERY_COUNT_MAX = 4_096
FRAMES_BYTES = 40  # what a message counts for besides its body: building and sending its frames

# Compiled code reads these as C variables: a module's names it reads as slowly as Python does.
_DELIVERY_BYTES_MAX = cython.declare(cython.longlong, DELIVERY_BYTES_MAX)
_TURN_BYTES_MAX = cython.declare(cython.longlong, TURN_BYTES_MAX)
_DELIVERY_BYTES_MIN = cython.declare(cython.longlong, DELIVERY_BYTES_MIN)
_DELIVERY_COUNT_MAX = cython.declare(cython.longlong, DELIVERY_COUNT_MAX)
_FRAMES_BYTES = cython.declare(cython.longlong, FRAMES_BYTES)

_FRESH = Lane.FRESH  # a look-up in the enum takes 0.07 us

# States of a dispatcher; it waits for one turn at a time.
AT_REST = 0
DUE = 1  # waits for its turn, with work to do
SERVED = 2  # waits for its turn, but the work is done


@cython.cclass
class Dispatcher:
    """Consumers that compete for the messages of some partitions.

    Attributes:
        vhost, name: of the queue, for errors.
        partitions: at least one; order holds within each.
        consumers: by falling priority.
        deleted: no more messages are handed out.
        paused: none are until `resume`.
        is_behind: consumers nearly keep up, and there is a backlog: publishers are to wait.
        on_caught_up: called once, when there is none any more.

    Args:
        scheduler: of the node.
    """

    __slots__ = (
        "_backlog",
        "_ends_seen",
        "_next_partition",
        "_ring",
        "_scheduler",
        "_state",
        "consumers",
        "deleted",
        "is_behind",
        "name",
        "on_caught_up",
        "partitions",
        "paused",
        "vhost",
    )

    def __init__(self, vhost: str, name: str, scheduler: Scheduler) -> None:
        self.vhost = vhost
        self.name = name
        self.partitions: list[QueuePartition] = []
        self.consumers: list[Consumer] = []
        self.deleted = self.paused = False
        self._scheduler = scheduler
        self._ring: CreditRing | None = None  # made for the second consumer
        self._next_partition = 0
        self._state = AT_REST
        self.is_behind = False
        self.on_caught_up: Callable[[], None] | None = None
        self._backlog = Backlog()
        self._ends_seen = 0  # sum of the end offsets of the partitions at the last turn

    @property
    def ready(self) -> int:
        """Messages that wait for a consumer."""
        return self._count_ready()

    @cython.cfunc
    @cython.returns(cython.longlong)
    @cython.exceptval(-1, check=True)
    @cython.locals(count=cython.longlong, partition=QueuePartition)
    def _count_ready(self) -> int:
        count = 0
        for partition in self.partitions:
            count += partition.count_ready()
        return count

    @property
    def unacked(self) -> int:
        """Messages handed out and not settled."""
        return self._count_unacked()

    @cython.cfunc
    @cython.returns(cython.longlong)
    @cython.exceptval(-1, check=True)
    @cython.locals(count=cython.longlong, partition=QueuePartition)
    def _count_unacked(self) -> int:
        count = 0
        for partition in self.partitions:
            count += partition.in_flight
        return count

    def add_consumer(self, consumer: Consumer) -> None:
        """Begin to deliver to a consumer.

        Raises:
            ConsumptionRefused: it is exclusive, or another one is.
            QueueQuarantined: all remaining messages lie behind damage.
        """
        self._read_again()
        if self._at_damage():
            raise self._why_stopped()
        if self.consumers and (consumer.exclusive or self.consumers[0].exclusive):
            raise ConsumptionRefused(self.name, self.vhost)
        self._enter(consumer)

    def _enter(self, consumer: Consumer) -> None:
        insort(self.consumers, consumer, key=_rank)
        if self._ring is not None:
            self._ring.add(consumer)
        elif len(self.consumers) > 1:
            self._ring = CreditRing()
            for each in self.consumers:
                self._ring.add(each)
        self._look_at_ends()
        self.wake()

    def detach(self, gone: Collection[Consumer]) -> None:
        """Deliver no more to some consumers; unknown ones are ignored."""
        self.consumers = [consumer for consumer in self.consumers if consumer not in gone]
        self._release_publishers()
        if self._ring is not None:
            self._ring.remove(gone)
            if len(self.consumers) < 2:  # who follows a single active consumer stands in no ring
                self._ring = None

    @cython.ccall
    def has_credit(self, consumer: Consumer) -> None:
        """A consumer that had none may have credit again; what is `on_ready` is dispatched to it, too."""
        if self._ring is not None:
            self._ring.has_credit(consumer)

    def credit(self, wanted: int) -> int:
        """How many messages its consumers would take at once; more than are wanted need not be counted."""
        if self.paused or not self.consumers:
            return 0
        if self._ring is not None:
            found: int = self._ring.credit(wanted)
            return found
        return max(0, self.consumers[0].credit())

    def wake(self) -> None:
        """Dispatch after this turn: any consumer may have credit again."""
        if self._ring is not None:
            self._ring.have_credit()
        self.on_ready()

    @cython.ccall
    def on_ready(self) -> None:
        """Dispatch after this turn: messages are ready."""
        if self._state == AT_REST:
            self._scheduler.call(_FRESH, self._begin_turn)
        self._state = DUE

    def _go_on_later(self) -> None:
        if self._state == AT_REST:
            self._scheduler.call(Lane.BACKLOG, self._begin_turn)
        self._state = DUE

    def _begin_turn(self) -> None:
        self._state = AT_REST
        if not self.paused:
            self._dispatch()

    def pause(self) -> None:
        """Hand out nothing until `resume`; publishers do not wait for consumers meanwhile."""
        self.paused = True
        self._release_publishers()

    def resume(self) -> None:
        """Go on to hand out."""
        self.paused = False
        self._look_at_ends()
        self.wake()

    def _dispatch(self) -> None:
        if self.consumers:
            self._serve()

    @cython.ccall
    @cython.locals(ready=cython.longlong)
    def _serve(self) -> None:
        ready = self._hand_out()
        self.is_behind = (
            ready > 0
            and bool(self.consumers)
            and self._backlog.stands(ready, self._count_unacked(), self._scheduler.now())
        )
        if not self.is_behind:
            self._release_publishers()

    @cython.ccall
    def _release_publishers(self) -> None:
        # Nobody waits for consumers, also as long as nothing is handed out.
        self.is_behind = False
        if self.on_caught_up is not None:
            caught_up, self.on_caught_up = self.on_caught_up, None
            caught_up()

    @cython.cfunc
    @cython.returns(cython.longlong)
    @cython.exceptval(-1, check=True)
    @cython.locals(
        came=cython.longlong,
        sent=cython.longlong,
        handed=cython.longlong,
        share=cython.longlong,
        shares_left=cython.longlong,
        ready=cython.longlong,
        credit=cython.longlong,
        count=cython.longlong,
        ring=CreditRing,
        delivery=Delivery,
    )
    def _hand_out(self) -> int:
        # Returns how many messages are left.
        # At least as many messages as came since the last turn: thousands of publishers may each have sent one.
        # With fewer the queue would grow even though consumers have credit.
        came = self._look_at_ends()
        sent = handed = share = shares_left = 0
        # Counted once: looking at each of 256 partitions for each delivery would take long.
        ready, order = self._count_ready(), self._order()
        while not self.deleted and ready > 0:
            if handed >= came and (sent > _TURN_BYTES_MAX or self._scheduler.is_over()):
                self._go_on_later()
                break
            consumer, credit = self._next_with_credit()
            if consumer is None:
                break
            ring = self._ring
            if shares_left == 0:
                # Even shares for one round, so that one fast consumer does not take it all.
                shares_left = ring.size(consumer.priority) if ring is not None and ready > 1 else 1
                share = ready // shares_left or 1
            shares_left -= 1
            count = share if share < credit else credit
            if count > _DELIVERY_COUNT_MAX:
                count = _DELIVERY_COUNT_MAX
            delivery = self._take_next(order, count)
            if delivery is None:
                if self._at_damage():
                    self._stop_at_damage()
                break
            count = delivery.count
            if count == credit and ring is not None:
                ring.spend(consumer)
            sent += delivery_cost(delivery)
            handed += count
            ready -= count
            consumer.deliver(delivery)
            if consumer.no_ack:
                delivery.partition.settle(delivery.offset, delivery.offset + count)
            if ready <= 0:  # unless messages came, or came back
                ready, order = self._count_ready(), self._order()
        self._backlog.count(came, handed)
        return ready

    @cython.cfunc
    @cython.returns(cython.longlong)
    @cython.exceptval(-1, check=True)
    @cython.locals(ends=cython.longlong, came=cython.longlong, partition=QueuePartition)
    def _look_at_ends(self) -> int:
        # How many messages have come since the last look.
        ends = 0
        for partition in self.partitions:
            ends += partition.log.end_of_ready()
        came, self._ends_seen = ends - self._ends_seen, ends
        return came

    @cython.cfunc
    @cython.locals(credit=cython.longlong)
    def _next_with_credit(self) -> tuple[Consumer | None, int]:
        # Those of the highest priority that have credit take turns.
        if self._ring is not None:
            return self._ring.next()
        if self.consumers and (credit := self.consumers[0].credit()) > 0:
            return self.consumers[0], credit
        return None, 0

    @cython.cfunc
    @cython.locals(partition=QueuePartition)
    def _order(self) -> deque[int] | None:
        # Partitions with messages, round robin: a busy partition does not keep the others waiting.
        # None: there is only one.
        partitions, first = self.partitions, self._next_partition
        if len(partitions) == 1:
            return None
        order: deque[int] = deque()
        for at in chain(range(first, len(partitions)), range(first)):
            partition = partitions[at]
            if partition.count_ready() > 0:
                order.append(at)
        return order

    def _take(self, count: int) -> Delivery | None:
        return self._take_next(self._order(), count)

    @cython.cfunc
    @cython.locals(count=cython.longlong, at=cython.Py_ssize_t, partition=QueuePartition)
    def _take_next(self, order: deque[int] | None, count: int) -> Delivery | None:
        # A partition with nothing in memory leaves the order; `on_ready` brings it back.
        partitions = self.partitions
        if order is None:
            partition = partitions[0]
            return partition.take(count, _DELIVERY_BYTES_MAX)
        while order:
            at = order[0]
            partition = partitions[at]
            delivery = partition.take(count, _DELIVERY_BYTES_MAX)
            if delivery is None:
                order.popleft()
                continue
            order.rotate(-1)
            self._next_partition = (at + 1) % len(partitions)
            delivery.partition_index = at
            return delivery
        return None

    # -- damage

    def _at_damage(self) -> bool:
        # Delivered messages before the damage may come back; and other partitions go on.
        if any(each.unreadable and not each.in_flight for each in self.partitions):
            return True
        return self._is_blocked() and not self.unacked

    def _is_blocked(self) -> bool:
        partitions = self.partitions
        if any(each.unreadable for each in partitions):
            return True
        return bool(partitions) and all(each.at_damage for each in partitions)

    def _read_again(self) -> None:
        # After a failed read: the disk may be well again.
        for partition in self.partitions:
            partition.log.read_again()

    def _stop_at_damage(self) -> None:
        consumers, self.consumers, self._ring = self.consumers, [], None
        error = self._why_stopped()
        for consumer in consumers:
            consumer.queue_stopped(error)

    def _why_stopped(self) -> QueueStopped:
        """What to tell who asks for what cannot be read; where that is no damage, it is read again then."""
        for partition in self.partitions:
            log = partition.log
            if log.read_error is not None:
                error = QueueUnreadable(self.name, self.vhost, log.blocked_from, log.read_error)
                self._read_again()
                return error
        first = min(partition.log.first_blocked for partition in self.partitions)
        return QueueQuarantined(self.name, self.vhost, first)

    # -- the end

    def delete(self) -> None:
        """Stop dispatching, and tell the consumers that the queue is deleted."""
        self.deleted = True
        for partition in self.partitions:
            partition.detach()
        consumers, self.consumers, self._ring = self.consumers, [], None
        for consumer in consumers:
            consumer.queue_deleted()


@cython.ccall
@cython.returns(cython.longlong)
@cython.exceptval(-1, check=True)
@cython.locals(
    delivery=Delivery,
    message_bytes=cython.longlong,
    records=Records,
)
def delivery_cost(delivery: Delivery) -> int:
    """The cost of a delivery in the budget of a turn, in bytes."""
    records = delivery.records
    message_bytes = records.batch_bytes // records.count + _FRAMES_BYTES
    return max(_DELIVERY_BYTES_MIN, delivery.count * message_bytes)


def _rank(consumer: Consumer) -> int:
    return -consumer.priority
