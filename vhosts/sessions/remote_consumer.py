"""A consumer of a remote queue, in one session after another; deliveries that it cannot take yet wait here.

attaching ──► attached ──► left
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Protocol

import msgspec

from routelog.exchanges import QueueNotFound, field_type
from routelog.log_backend import Records
from routelog.vhosts.counters.counters import MessageCounters
from routelog.vhosts.errors import (
    InvalidStreamOffset,
    QueueQuarantined,
    QueueUnreadable,
    SessionLost,
)
from routelog.vhosts.messages.consumer import Consumer
from routelog.vhosts.messages.delivery import Delivery
from routelog.vhosts.queues.queue_handle import (
    AttachedConsumer,
    ChannelPrefetch,
    ConsumeOptions,
    ConsumerSource,
    QueueHandle,
)
from routelog.vhosts.sessions.front_session import FrontSession, SessionQueue, numbers_of
from routelog.vhosts.sessions.remote_partition import PartitionReturns, RemotePartition
from routelog.vhosts.sessions.session_message import (
    COUNTED,
    OFFSET_END,
    REDELIVERED,
    BadSessionMessage,
    Kind,
    SessionMessage,
    message_pieces,
    records_of,
)

CREDIT_BYTES = 512 * 1024  # half of what the leader sends ahead


class ConsumedQueue(SessionQueue, Protocol):
    """The queue of a remote consumer: see `RemoteQueue`."""

    counters: MessageCounters
    numbers: Sequence[int]
    is_single: bool

    @property
    def full_name(self) -> str:
        """What errors call it."""

    @property
    def session(self) -> FrontSession:
        """The session that is open, or the next one."""

    def returns(self, group: str, index: int) -> PartitionReturns:
        """What comes back to a partition of the queue, or of a group of it."""

    def left(self, consumer: AttachedConsumer) -> None:
        """A consumer has left."""


@dataclass(slots=True)
class _Waiting:
    # A delivery that came; its records from `index` on were not handed on.
    partition: RemotePartition
    records: Records
    index: int
    offset: int  # of the first record
    redelivered: bool
    counts: Sequence[int]
    size: int  # of the message that it came with


class RemoteConsumer:
    """One consumer of a remote queue (`ConsumerSource`, `SessionConsumer`).

    Attributes:
        attached: resolves when the leader has it, or has the leader's error, or SessionLost.
        subject: its number in the session.
        partitions: what its deliveries came from in the session, by index.
        has_left: nothing is handed on any more.

    Args:
        begin: called when the leader has it for the first time, before its first delivery.

    Raises:
        InvalidStreamOffset: its place is none.
    """

    def __init__(
        self,
        queue: ConsumedQueue,
        consumer: AttachedConsumer,
        options: ConsumeOptions,
        begin: Callable[[ConsumerSource], None],
    ) -> None:
        _sent_place(options.place)
        self._queue = queue
        self._consumer = consumer
        self._options = options
        self._begin = begin
        self._is_reader = options.place is not None and options.group is None
        self._is_partitioned = len(queue.numbers) > 1
        self.attached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.has_left = self._has_begun = self._is_due = self.is_cancelled = False
        self._successor: ConsumerSource | None = None  # serves its consumer when this node leads
        self._waiting: deque[_Waiting] = deque()
        # Of a reader, by partition: behind what was handed on, or where the leader let it begin
        self._passed: list[int] = []

    @property
    def group(self) -> str:
        """See `ConsumerSource`."""
        return "" if self._options.group is None else self._options.group.name

    @property
    def ready(self) -> int:
        """See `ConsumerSource`: what waits here, or in the queue of this node that serves its consumer."""
        if self._successor is not None:
            return self._successor.ready
        return sum(each.records.count - each.index for each in self._waiting)

    @property
    def partitions_in_order(self) -> Sequence[RemotePartition]:
        """The partitions of which its follower is handed nothing before what it had is back."""
        is_followed = self._queue.is_single or self._consumer.exclusive
        keeps_none = self._is_reader or self._consumer.no_ack
        return list(self.partitions.values()) if is_followed and not keeps_none else ()

    # -- its sessions

    def attach(self) -> None:
        """Ask the leader for deliveries, in the queue's session."""
        self._session = session = self._queue.session
        self.partitions: dict[int, RemotePartition] = {}
        self._handed_bytes = self._handed_messages = self._credited_bytes = 0
        self._told_lapsed = self._consumer.lapsed
        self.subject = session.add_consumer(self)
        queue, arguments = session.subject_of(self._queue), (self._arguments(),)
        session.ask(
            "consume", arguments, self._answered, self._failed, queue, self._queue.full_name
        )

    def _arguments(self) -> dict[str, object]:
        consumer, options = self._consumer, self._options
        group, wanted = options.group, options.wanted
        return {
            "consumer": self.subject,
            "tag": consumer.tag,
            "no_ack": consumer.no_ack,
            "exclusive": consumer.exclusive,
            "priority": consumer.priority,
            "prefetch": consumer.prefetch,
            "lapsed": self._told_lapsed,
            "group": None if group is None else [group.name, group.expires, group.hold_bytes],
            "place": _sent_place(options.place),
            "places": self._passed,
            "comes_back": self._has_begun,
            "filter": None if wanted is None else wanted.arguments,
            "channel": self._channel(),
        }

    def _channel(self) -> tuple[int, int] | None:
        # Without a prefetch count of its own, the leader knows of no channel.
        shared = self._options.shared
        self._told_prefetch = 0 if shared is None else shared.count
        return None if shared is None or not shared.count else (shared.number, shared.count)

    def _tell_prefetch(self, shared: ChannelPrefetch) -> None:
        self._told_prefetch = shared.count
        self._tell("qos", shared.number, shared.count)

    def _tell(self, method: str, *told: object) -> None:
        session = self._session
        session.tell(method, self.subject, *told, subject=session.subject_of(self._queue))

    def stand_aside(self) -> None:
        """Its client has not settled in time: what waits for it here is for others, too."""
        self._tell_lapsed()  # first, or the leader takes what comes back for room
        for each in self._waiting:
            self._credit(each)
        self._put_back()
        self._tell("stand_aside")

    def _tell_lapsed(self) -> None:
        # They fill its prefetch count, though nothing is unsettled at the leader.
        if self._told_lapsed != self._consumer.lapsed:
            self._told_lapsed = self._consumer.lapsed
            self._tell("lapsed", self._told_lapsed)

    def _answered(self, value: object) -> None:
        if self.has_left:
            return
        if self._is_reader:
            places = _places(value, len(self._queue.numbers))
            self._passed = self._passed or places
        if not self._has_begun:
            self._has_begun = True
            self._begin(self)
            if not self.attached.done():
                self.attached.set_result(None)
        self._hand_on()

    def _failed(self, error: Exception) -> None:
        if not isinstance(error, SessionLost):  # see `lost`
            self._session.forget_consumer(self.subject)
            self.ended(error)

    def ended(self, error: Exception | None) -> None:
        """See `SessionConsumer`."""
        if self.has_left:
            return
        self.end()
        if self.is_cancelled:
            return  # its client awaits that answer
        if not self._has_begun:
            error = error or QueueNotFound(self._queue.name, self._queue.vhost)
            if not self.attached.done():
                self.attached.set_exception(error)
        elif isinstance(error, QueueQuarantined | QueueUnreadable):
            self._consumer.queue_stopped(error)
        else:
            self._consumer.queue_deleted()

    def lost(self, *, was_open: bool) -> None:
        """See `SessionConsumer`: what it had of the session is the leader's again."""
        if self.has_left:
            return
        if self._consumer.no_ack and not self._is_reader:  # but what is settled
            for each in self._waiting:
                each.size = 0
        else:
            self._waiting.clear()
        cancels = self._options.cancel_on_failover
        # What came before the leader's answer is its client's, if that may read when the next one answers.
        if not (self._has_begun or (self._waiting and was_open and not cancels)):
            self.ended(SessionLost(self._queue.full_name, self._session.leader))
        elif was_open and cancels:
            self.ended(None)
        else:
            self.attach()

    def hand_over(self, queue: QueueHandle) -> None:
        """A queue of this node has the messages from here on: let it serve the consumer."""
        if self.has_left:
            return
        if not self._has_begun:  # the client is asked first whether it may
            return self.ended(SessionLost(self._queue.full_name, self._session.leader))
        options = replace(self._options, places=self._passed, comes_back=True)
        self.end()
        try:
            attaching = queue.attach(self._consumer, options, partial(self._move, queue))
        except Exception as error:
            return self._refuse(error)
        if asyncio.isfuture(attaching):
            attaching.add_done_callback(self._moved)

    def _move(self, queue: QueueHandle, source: ConsumerSource) -> None:
        self._consumer.queue, self._consumer.source, self._successor = queue, source, source

    def _moved(self, attaching: "asyncio.Future[None]") -> None:
        error = None if attaching.cancelled() else attaching.exception()
        if isinstance(error, Exception):
            self._refuse(error)

    def _refuse(self, error: Exception) -> None:
        self.has_left = False
        self.ended(error)

    # -- deliveries

    def received(self, message: SessionMessage) -> None:
        """See `SessionConsumer`."""
        counts: Sequence[int] = ()
        content = message.content
        if message.flags & COUNTED:
            if len(content) < 4 * message.count:
                raise BadSessionMessage(f"DELIVER: {message.count} counts in {len(content)} bytes")
            counts = numbers_of(content[: 4 * message.count])
            content = content[4 * message.count :]
        records = records_of(content)
        if records.count != message.count or message.first + message.count > OFFSET_END:
            where = f"{message.count} from {message.first} on"
            raise BadSessionMessage(f"DELIVER: {records.count} messages for {where}")
        came = _Waiting(
            self._partition(message.partition),
            records,
            0,
            message.first,
            bool(message.flags & REDELIVERED),
            counts,
            len(message.content),
        )
        self._waiting.append(came)
        if self.has_left:
            self._put_back()
        elif self._has_begun:
            self._hand_on()

    def _partition(self, index: int) -> RemotePartition:
        partition = self.partitions.get(index)
        if partition is None:
            numbers, session = self._queue.numbers, self._session
            if index >= len(numbers):
                raise BadSessionMessage(f"DELIVER of partition {index} of {self._queue}")
            returns = (
                PartitionReturns(session, index)
                if self._is_reader
                else self._queue.returns(self.group, index)
            )
            queue = session.subject_of(self._queue)
            partition = self.partitions[index] = RemotePartition(
                session,
                self.subject,
                queue,
                numbers[index],
                index,
                self._queue.counters,
                self,
                returns,
            )
        return partition

    def has_credit(self, consumer: Consumer) -> None:
        """See `ConsumerSource`; `basic.qos` may have changed what its channel takes."""
        shared = self._options.shared
        if shared is not None and shared.count != self._told_prefetch and not self.has_left:
            self._tell_prefetch(shared)
        if (self._waiting or self._told_lapsed) and not self._is_due:
            self._is_due = True
            self._session.call_soon(self._hand_on_due)

    def on_ready(self) -> None:
        """See `ConsumerSource`."""
        if self._successor is not None:
            self._successor.on_ready()
        else:
            self.has_credit(self._consumer)

    def _hand_on_due(self) -> None:
        self._is_due = False
        if self._has_begun and not self.has_left:
            self._tell_lapsed()
            self._hand_on()

    def _hand_on(self, *, whole: bool = False) -> None:
        while self._waiting and not self.has_left:
            first = self._waiting[0]
            index, count = first.index, first.records.count - first.index
            if count and not whole:
                count = min(count, self._consumer.credit())
                if count <= 0:
                    break
            first.index += count
            if first.index == first.records.count:
                self._waiting.popleft()
                self._credit(first)
            if count:
                self._deliver(first, index, count)

    def _deliver(self, came: _Waiting, index: int, count: int) -> None:
        partition, offset = came.partition, came.offset + index
        delivery = Delivery(partition, came.records, index, count, offset, came.redelivered)
        if self._is_partitioned:
            delivery.partition_index = partition.index
        if came.redelivered:
            partition.counted(dict(enumerate(came.counts, came.offset)))
        if self._is_reader:
            self._passed[partition.index] = offset + count
        self._consumer.deliver(delivery)

    def _credit(self, came: _Waiting) -> None:
        self._handed_bytes += came.size
        if came.size:
            self._handed_messages += came.records.count
        if self._handed_bytes - self._credited_bytes >= CREDIT_BYTES:
            self._credited_bytes = self._handed_bytes
            handed = self._handed_bytes, self._handed_messages
            self._session.write(
                message_pieces(SessionMessage(Kind.CREDIT, 0, 0, self.subject, *handed))
            )

    # -- the end

    def end(self) -> None:
        """The leader delivers no more: hand on what it has settled, and leave."""
        if self._has_begun and self._consumer.no_ack:
            self._hand_on(whole=True)
        self.leave()

    def leave(self) -> None:
        """Hand on nothing more: what waits goes back, as the client was not told of it."""
        if not self.has_left:
            self.has_left = True
            self._put_back()
            self._queue.left(self._consumer)

    def _put_back(self) -> None:
        waiting, self._waiting = self._waiting, deque()
        if self._consumer.no_ack:
            return
        for each in waiting:
            if each.index < each.records.count:
                first = each.offset + each.index
                each.partition.give_back(first, each.offset + each.records.count)


def _places(value: object, count: int) -> list[int]:
    try:
        places = msgspec.convert(value, list[int])
    except msgspec.ValidationError as error:
        raise BadSessionMessage(f"places of a reader: {error}") from None
    if len(places) != count:
        raise BadSessionMessage(f"places of a reader: {len(places)} of {count}")
    return places


def _sent_place(place: object) -> object:
    if isinstance(place, datetime):
        return ["time", place.timestamp()]
    if place is None or isinstance(place, str | int):
        return place
    raise InvalidStreamOffset(place, field_type(place))
