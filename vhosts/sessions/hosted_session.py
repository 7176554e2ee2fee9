"""The leader's end of a session: what a front sends is carried out, and the front is told what comes of it.

A front's batches are numbered, and confirmed up to a number. What was delivered belongs to the session: only
its front settles it, and when the session ends, all of it comes back. Order holds, as messages are carried out
as they come; what takes longer than a turn is answered by the number of its call.
"""

import asyncio
import logging
from array import array
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from routelog.exchanges import holding_exchange
from routelog.log_backend import (
    NOTHING,
    Durability,
    JournalFailed,
    Lane,
    Octets,
    PartitionClosed,
    Progress,
    Reason,
    Records,
    Scheduler,
    slice_records,
)
from routelog.vhosts.counters.counters import ChangedCounters, MessageCounters
from routelog.vhosts.errors import PublishRefused, QueueStopped, Untaken, VhostNotFound
from routelog.vhosts.messages.delivery import Delivery, DeliverySource, ReturnReason, put_back
from routelog.vhosts.queues.queue import Queue
from routelog.vhosts.queues.queue_handle import Answer, ConsumerSource
from routelog.vhosts.sessions.batch_confirms import BatchConfirms
from routelog.vhosts.sessions.bound_queue import FORGOTTEN, BoundQueue, found_queue
from routelog.vhosts.sessions.exchange_batch import RoutedBatch, route_batch
from routelog.vhosts.sessions.hosted_calls import (
    ConsumeCall,
    FrontConnection,
    call_queue,
    call_vhost,
    decode_call,
)
from routelog.vhosts.sessions.hosted_consumer import HostedChannel, HostedConsumer
from routelog.vhosts.sessions.hosted_leaving import leaving
from routelog.vhosts.sessions.hosted_transaction import CommitParts, Holder, HostedTransaction
from routelog.vhosts.sessions.session_errors import FAULT, encode_error
from routelog.vhosts.sessions.session_message import (
    ASKED,
    FAILED,
    HEAD_BYTES,
    MORE,
    OUTBOX_BYTES_MAX,
    PART,
    WAITED,
    BadSessionMessage,
    Kind,
    SessionMessage,
    batch_pieces,
    message_pieces,
    records_of,
    reply_of,
    reply_pieces,
    value_in,
)
from routelog.vhosts.vhost.vhost import VirtualHost
from routelog.vhosts.vhost.vhost_directory import VhostDirectory

log = logging.getLogger(__name__)

# Queues and consumers of a session at a time: a node has 200,000 queues in a vhost; 1 to 2 KB each
SUBJECTS_MAX = 1 << 20
# That are not answered: each channel of a front waits for one; some 1 KB each, and its arguments
CALLS_MAX = 1 << 18
CALL_BYTES_MAX = 1024 * 1024  # sixteen times what the arguments of a declaration may take
SWEEP_MIN = (
    1_024  # queues and exchanges that were named, before those that are deleted are forgotten
)

_DISK = Durability.DISK  # a look-up in the enum takes 0.07 us
_ACKED, _REJECTED = Reason.ACKED, Reason.REJECTED
_REASONS: Mapping[int, Reason] = {int(each): each for each in (_ACKED, _REJECTED)}
_RETURN_REASONS: Mapping[int, ReturnReason] = {each.value: each for each in ReturnReason}
_EMPTY_BATCH = b"\xc4\x00"  # msgpack's octets of length 0
_BATCH = b"\xc6"  # and of any length: u32, big-endian


@dataclass(frozen=True, slots=True)
class SessionHost:
    """What sessions need of the node that leads.

    Attributes:
        progress: of the journal of all queues.
        send_reply: sends a direct reply on to where its address is.
        is_reply_open: whether somebody may wait at an address for direct replies.
        commit: carries out transactions.
        now: microseconds since 1970: when messages came in, whatever the clocks of fronts say.
        in_time: what is done, or fails when too few nodes store it in time.
    """

    vhosts: VhostDirectory
    progress: Progress
    scheduler: Scheduler
    send_reply: Callable[[bytes, Records], None]
    is_reply_open: Callable[[bytes], bool]
    commit: CommitParts
    now: Callable[[], int]
    in_time: Callable[[Awaitable[object]], Awaitable[object]]


class HostedSession:
    """One session of a front.

    Attributes:
        name: of the front: "node", with which names of connections begin.
        counters: of what its consumers take; the front counts for its channels.
        outbox_bytes: how much the transport has not sent: while it is much, nothing is delivered.
        on_applied: told up to which position the front has applied definitions.
        on_failed: told why the session has to end, when nothing that was received is at fault.
        on_told: takes the front's answers to questions about its clients.
        on_counts: takes counts of the front's clients.
        on_comes_back: told of each consumer that the front had in another session.

    Args:
        write: sends pieces of messages, with all others of a turn of the event loop.
    """

    def __init__(
        self, host: SessionHost, write: Callable[[Sequence[Octets]], object], name: str
    ) -> None:
        self.name = name
        self.counters = MessageCounters(ChangedCounters())
        self.outbox_bytes: Callable[[], int] = lambda: 0
        self.on_applied: Callable[[int], None] = lambda position: None
        self.on_failed: Callable[[str], None] = lambda reason: None
        self.on_told: Callable[[SessionMessage], None] = lambda message: None
        self.on_counts: Callable[[SessionMessage], None] = lambda message: None
        self.on_comes_back: Callable[[], None] = lambda: None
        self._host = host
        self._write = write
        self._last_subject = 0  # the highest one
        self._queues: dict[int, BoundQueue] = {}
        self._exchanges: dict[int, tuple[str, str]] = {}  # vhost and name
        self._sweep_at = SWEEP_MIN
        self._consumers: dict[int, HostedConsumer] = {}
        self._channels: dict[int, HostedChannel] = {}  # with a prefetch count
        self._stalled: dict[HostedConsumer, None] = {}  # they wait for `drained`
        self._gets: deque[asyncio.Future[bool]] = deque()  # likewise
        self._connections: dict[int, FrontConnection] = {}
        self._next_batch = 1
        self._confirms = BatchConfirms(host.progress, self._confirm, self._journal_failed)
        self._calls = 0
        self._unread_bytes = 0  # of what was sent while much was unsent, as it cannot wait
        self._transaction = HostedTransaction()  # that comes
        # Sources that hand out nothing before more comes back; who is kept until then, with nothing unsettled
        self._paused: dict[DeliverySource, list[HostedConsumer]] = {}
        # It has failed, or is closed: nothing is carried out or sent any more
        self._is_over = False
        self._is_closed = False
        self._ended: asyncio.Future[None] | None = None

    def write(self, pieces: Sequence[Octets]) -> None:
        """See `DeliveringSession`."""
        if not self._is_over:
            self._write(pieces)

    def _send(self, message: SessionMessage) -> None:
        if self.outbox_bytes() <= OUTBOX_BYTES_MAX:
            self._unread_bytes = 0
        else:
            self._unread_bytes += HEAD_BYTES + len(message.content)
            if self._unread_bytes > OUTBOX_BYTES_MAX:
                self.fail("it asks, and does not read what it is answered")
        self.write(message_pieces(message))

    # -- what its owner says

    def received(self, message: SessionMessage) -> None:
        """Carry out a message.

        Raises:
            BadSessionMessage: the front's fault: end the session.
        """
        action = _ACTIONS.get(message.kind)
        if action is None:
            raise BadSessionMessage(f"{message.kind.name} to a leader")
        if self._is_over:
            return
        try:
            action(self, message)
        except BadSessionMessage:
            raise
        except Exception:  # a fault of ours: what came behind it must not be confirmed
            log.exception("%s of %s failed", message.kind.name, self.name)
            self.fail(FAULT)

    def drained(self) -> None:
        """Most of what was unsent is sent."""
        stalled, self._stalled = self._stalled, {}
        for consumer in stalled:
            consumer.wake()
        self._next_get()

    def pressed(self, reasons: Iterable[str]) -> None:
        """Tell the front why publishers are to wait; no reason: they are not."""
        content = msgspec.msgpack.encode(sorted(reasons))
        self._send(SessionMessage(Kind.PRESSURE, content=content))

    def ask_applied(self, position: int) -> None:
        """Ask for `on_applied` when the front has applied definitions up to a position."""
        self._send(SessionMessage(Kind.APPLY, number=position))

    @property
    def has_consumers(self) -> bool:
        """Whether it has any, also such as have left and have deliveries unsettled."""
        return bool(self._consumers)

    def closed(self) -> "asyncio.Future[None]":
        """The session has ended: the unsettled comes back, consumers leave, exclusive queues end, in turns.

        Returns:
            Done when that is done.
        """
        if self._ended is None:
            self._is_closed = self._is_over = True
            self._confirms.close()
            self._ended = self._host.scheduler.run(self._end(), Lane.JOBS)
        return self._ended

    def _end(self) -> Iterator[None]:
        got = [
            (bound.vhost, bound.queue, bound.unsettled)
            for bound in self._queues.values()
            if bound.vhost is not None and bound.queue is not None and bound.unsettled.count
        ]
        consumers, self._consumers = self._consumers, {}
        paused, self._paused = self._paused, {}
        self._queues.clear()
        self._stalled.clear()
        for room in self._gets:
            _resolve(room, False)
        yield from leaving(consumers.values(), got, paused)
        for number in [*self._connections]:
            self.connection_closed(number)
            yield

    # -- batches

    def _name_queue(self, message: SessionMessage) -> None:
        vhost, name = value_in(message.content, tuple[str, str])
        self._take_subject(message.subject)
        if len(self._queues) + len(self._exchanges) >= self._sweep_at:
            self._sweep()
        exchange = holding_exchange(name)
        if exchange is not None:
            self._exchanges[message.subject] = vhost, exchange
            return
        bound = found_queue(self._host.vhosts, vhost, name, message.number)
        self._queues[message.subject] = bound

    def _take_subject(self, subject: int) -> None:
        tables: tuple[Mapping[int, object], ...] = self._queues, self._exchanges, self._consumers
        if subject < 1 or any(subject in table for table in tables):
            raise BadSessionMessage(f"subject {subject} is taken")
        if sum(len(table) for table in tables) >= SUBJECTS_MAX:
            raise BadSessionMessage(f"more than {SUBJECTS_MAX} queues, exchanges and consumers")
        self._last_subject = max(self._last_subject, subject)

    def _sweep(self) -> None:
        self._queues = {
            subject: bound
            for subject, bound in self._queues.items()
            if bound.is_open or bound.unsettled.count
        }
        newest = {named: subject for subject, named in self._exchanges.items()}
        self._exchanges = {
            subject: named for named, subject in newest.items() if self._is_there(*named)
        }
        self._sweep_at = max(SWEEP_MIN, 2 * (len(self._queues) + len(self._exchanges)))

    def _is_there(self, vhost: str, exchange: str) -> bool:
        try:
            return self._host.vhosts.get(vhost).routing.has_exchange(exchange)
        except VhostNotFound:
            return False

    def _bound(self, subject: int) -> BoundQueue | None:
        # None: it is deleted, and was forgotten.
        bound = self._queues.get(subject)
        if bound is None and not 0 < subject <= self._last_subject:
            raise BadSessionMessage(f"no queue {subject} was named")
        return bound

    def _publish(self, message: SessionMessage) -> None:
        if message.flags & PART:
            self._transaction.publish(self._bound(message.subject), message, self.now())
            return
        number = message.number
        if number != self._next_batch:
            raise BadSessionMessage(f"batch {number} comes in the place of {self._next_batch}")
        exchange = self._exchanges.get(message.subject)
        bound = None if exchange else self._bound(message.subject)
        queue = None if bound is None else bound.queue
        records = records_of(message.content, self.now())
        self._next_batch = number + 1
        if exchange is not None:
            self._route(message, *exchange, records)
            return
        position, on_disk, is_asked = 0, False, message.flags & ASKED
        indexes: Sequence[int] = ()
        if queue is not None and not queue.deleted:  # as routing: what a deleted queue gets is gone
            publish = queue.publish if is_asked else queue.publish_all
            try:
                position = publish(records, message.flags & WAITED != 0)
            except PublishRefused as refused:
                position, indexes = refused.position, refused.refused
            except (JournalFailed, PartitionClosed) as error:
                self.fail(str(error))
                return
            on_disk = queue.durability is _DISK
        elif bound is not None and bound.vhost is not None:
            position = bound.vhost.unrouted.durable
            on_disk = position > 0
        if is_asked:
            content = array("I", indexes).tobytes()
            self._send(SessionMessage(Kind.REFUSED, 0, 0, 0, number, 0, len(indexes), content))
        self._confirms.add(number, position, on_disk)

    def _route(self, message: SessionMessage, vhost: str, exchange: str, records: Records) -> None:
        host, waited = self._host, message.flags & WAITED != 0
        try:
            routed = route_batch(
                host.vhosts.get(vhost), exchange, records, host.scheduler, waited=waited
            )
        except VhostNotFound:
            routed = RoutedBatch(NOTHING, Untaken(refused=range(records.count)))
        except JournalFailed as error:
            self.fail(str(error))
            return
        needed, (refused, returned) = routed
        counts = len(refused), len(returned)
        content = array("I", (*refused, *returned)).tobytes()
        self._send(SessionMessage(Kind.ROUTED, 0, 0, 0, message.number, *counts, content))
        position = max(needed.written, needed.durable)
        self._confirms.add(message.number, position, needed.durable > 0)

    def _reply(self, message: SessionMessage) -> None:
        self._host.send_reply(*reply_of(message))

    def send_reply(self, address: bytes, records: Records) -> None:
        """Send a direct reply to a client of the front; it is lost if the front does not read."""
        if self.outbox_bytes() <= OUTBOX_BYTES_MAX:
            self.write(reply_pieces(address, records))

    def _confirm(self, written: int, durable: int) -> None:
        self._send(SessionMessage(Kind.CONFIRM, 0, 0, 0, written, durable))

    def _journal_failed(self) -> None:
        self.fail("the log cannot be written")

    def fail(self, reason: str) -> None:
        """See `DeliveringSession`."""
        if not self._is_over:
            self._is_over = True
            self._confirms.close()
            self.on_failed(reason)

    # -- deliveries

    def takes_from(self, consumer: HostedConsumer) -> bool:
        """See `DeliveringSession`."""
        if self._is_over:
            return False
        if self.outbox_bytes() <= OUTBOX_BYTES_MAX:
            return True
        self._stalled[consumer] = None
        return False

    def _credit(self, message: SessionMessage) -> None:
        consumer = self._consumers.get(message.subject)
        if consumer is not None:
            consumer.handed_on(message.first)
        elif not 0 < message.subject <= self._last_subject:
            raise BadSessionMessage(f"credit of {message.subject}")

    def _holder(self, subject: int) -> Holder:
        holder = self._consumers.get(subject) or self._queues.get(subject)
        if holder is None:
            raise BadSessionMessage(f"{subject} has nothing unsettled")
        return holder

    def _settle(self, message: SessionMessage) -> None:
        reason = _REASONS.get(message.flags & ~PART)
        if reason is None:
            raise BadSessionMessage(f"settled for reason {message.flags}")
        holder, count = self._holder(message.subject), message.count
        if message.flags & PART:
            self._transaction.settle(holder, message, reason)
            return
        first, end = message.first, message.first + count
        source = holder.unsettled.take(message.partition, first, end)
        holder.let_go(count)
        source.settle(first, end, reason)
        if reason is _ACKED:
            source.counters.acked(self.counters, count)
        else:
            source.counters.refused(self.counters, count)
        if source.ready or holder.is_partitioned:
            source.on_ready()
        if holder.is_gone:
            self._drop_settled(holder)

    def _return(self, message: SessionMessage) -> None:
        reason = _RETURN_REASONS.get(message.flags & ~MORE)
        if reason is None:
            raise BadSessionMessage(f"returned for reason {message.flags}")
        count = message.count
        if not count and self._is_forgotten(message.subject):
            return
        holder = self._holder(message.subject)
        first, end = message.first, message.first + count
        if count:
            source = holder.unsettled.take(message.partition, first, end)
        elif (known := holder.unsettled.source(message.partition)) is not None:
            source = known
        else:
            return
        if message.flags & MORE and source not in self._paused:
            self._paused[source] = []
            source.pause()
        if count:
            holder.let_go(count)
            source.give_back(first, end, reason)
            source.counters.note()
        if not message.flags & MORE:
            for kept in self._resumed(source, holder):
                self._drop_settled(kept)
        if holder.is_gone:
            self._drop_settled(holder)

    def _is_forgotten(self, subject: int) -> bool:
        # Its queue may be deleted, of which the front has not heard.
        is_known = subject in self._consumers or subject in self._queues
        return 0 < subject <= self._last_subject and not is_known

    def _resumed(self, source: DeliverySource, holder: Holder) -> Sequence[HostedConsumer]:
        # All has come back.
        kept = self._paused.pop(source, None)
        if kept is not None:
            source.resume()
        elif source.ready or holder.is_partitioned:
            source.on_ready()
        return kept or ()

    def _drop_settled(self, holder: Holder) -> None:
        # A consumer that has gone, and has nothing unsettled. The last RETURN of a series may name it.
        if not isinstance(holder, HostedConsumer) or holder.unsettled.count:
            return
        for source in holder.unsettled.sources:
            if source in self._paused:
                self._paused[source].append(holder)
                return
        self._forget(holder)

    def _commit(self, message: SessionMessage) -> None:
        if self._calls >= CALLS_MAX:
            raise BadSessionMessage(f"call {self._calls}")
        transaction, self._transaction = self._transaction, HostedTransaction()
        parts = transaction.take()
        for holder in transaction.holders():
            if holder.is_gone:
                self._drop_settled(holder)
        if parts is None:
            self._answer(message.number, None, None)
            return
        self._answer_later(message.number, None, self._host.commit(parts, self.counters))

    def consumer_ended(self, consumer: HostedConsumer, error: QueueStopped | None) -> None:
        """See `DeliveringSession`."""
        if self._is_over or consumer.is_gone:
            return
        consumer.is_gone = True
        content = msgspec.msgpack.encode(None) if error is None else encode_error(error)
        self._send(SessionMessage(Kind.ENDED, subject=consumer.number, content=content))
        # Its queue is in the middle of something.
        self._host.scheduler.call(Lane.CLIENTS, partial(self._after_end, consumer))

    def _after_end(self, consumer: HostedConsumer) -> None:
        if not self._is_closed:
            if not consumer.queue.deleted:
                consumer.queue.detach((consumer,))
            self.leave([consumer])
            consumer.vhost.consumers_left(consumer.queue.name)

    # -- calls

    def _call(self, message: SessionMessage) -> None:
        if len(message.content) > CALL_BYTES_MAX or self._calls >= CALLS_MAX:
            raise BadSessionMessage(f"call {self._calls} of {len(message.content)} bytes")
        method, arguments = decode_call(message.content)
        number, subject = message.number, message.subject
        bound = self._bound(subject) if subject else None
        try:
            if not subject:
                answer = call_vhost(self, method, arguments)
            else:
                answer = call_queue(self, bound or FORGOTTEN, method, arguments)
        except BadSessionMessage:
            raise
        except Exception as error:
            self._refuse(number, error)
            return
        if asyncio.isfuture(answer):
            # A message could come behind an answer that there is none: nobody's. `consume` sees to it.
            in_time = method not in ("consume", "get")
            self._answer_later(number, bound, answer, in_time=in_time)
        else:
            self._answer(number, bound, answer)

    def _answer_later(
        self,
        number: int,
        bound: BoundQueue | None,
        answer: "asyncio.Future[Any]",
        *,
        in_time: bool = True,
    ) -> None:
        self._calls += 1
        if in_time:
            answer = asyncio.ensure_future(self._host.in_time(answer))
        answer.add_done_callback(partial(self._answered, number, bound))

    def _answered(
        self, number: int, bound: BoundQueue | None, answer: "asyncio.Future[object]"
    ) -> None:
        self._calls -= 1
        if answer.cancelled():
            self._refuse(number, asyncio.CancelledError())
        elif (error := answer.exception()) is not None:
            self._refuse(number, error)
        else:
            self._answer(number, bound, answer.result())

    def _refuse(self, number: int, error: BaseException) -> None:
        content = encode_error(error)
        if number:
            self._send(SessionMessage(Kind.ANSWER, FAILED, number=number, content=content))

    def _answer(self, number: int, bound: BoundQueue | None, value: object) -> None:
        if isinstance(value, Delivery):
            self._answer_get(number, bound, value)
        elif number:
            content = msgspec.msgpack.encode(value)
            self._send(SessionMessage(Kind.ANSWER, number=number, content=content))

    def _answer_get(self, number: int, bound: BoundQueue | None, delivery: Delivery) -> None:
        if self._is_over or not number or bound is None or bound.queue is None:
            put_back(delivery)
            return
        source, first, partition = (
            delivery.partition,
            delivery.offset,
            delivery.partition_index or 0,
        )
        bound.unsettled.add(partition, source, first, first + 1)
        source.counters.got(self.counters, False, delivery.redelivered)
        message: dict[str, Any] = {
            "ready": bound.queue.ready,
            "partition": partition,
            "offset": first,
            "redelivered": delivery.redelivered,
            "count": source.delivery_count(first),
            "batch": b"",
        }
        records = slice_records(delivery.records, delivery.index, 1)
        content = msgspec.msgpack.encode(message).removesuffix(_EMPTY_BATCH)
        content += _BATCH + records.batch_bytes.to_bytes(4, "big")
        answer = SessionMessage(Kind.ANSWER, number=number, content=content)
        self.write(batch_pieces(answer, records))

    # -- what calls need (CallingSession)

    def room(self) -> "asyncio.Future[bool] | None":
        """See `CallingSession`."""
        if not self._gets and self.outbox_bytes() <= OUTBOX_BYTES_MAX:
            return None
        room: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._gets.append(room)
        return room

    def _next_get(self) -> None:
        # One in a turn: then it is known how much the last one has left unsent.
        if self._gets and not self._is_over and self.outbox_bytes() <= OUTBOX_BYTES_MAX:
            _resolve(self._gets.popleft(), True)
            self._host.scheduler.call(Lane.CLIENTS, self._next_get)

    def now(self) -> int:
        """See `CallingSession`."""
        return self._host.now()

    def vhost(self, name: str) -> VirtualHost:
        """See `CallingSession`."""
        return self._host.vhosts.get(name)

    def connection(self, number: int) -> FrontConnection | None:
        """See `CallingSession`."""
        return self._connections.get(number)

    def is_reply_open(self, address: bytes) -> bool:
        """See `CallingSession`."""
        return self._host.is_reply_open(address)

    def owner(self, number: int, vhost: VirtualHost) -> FrontConnection:
        """See `CallingSession`."""
        connection = self._connections.get(number)
        if connection is None:
            connection = FrontConnection(f"{self.name}/{number}", vhost)
            self._connections[number] = connection
        return connection

    def connection_closed(self, number: int) -> Answer[object]:
        """See `CallingSession`."""
        connection = self._connections.pop(number, None)
        if connection is None:
            return None
        connection.is_closed = True
        return connection.vhost.connection_closed(connection)

    def new_consumer(self, wanted: ConsumeCall, vhost: VirtualHost, queue: Queue) -> HostedConsumer:
        """See `CallingSession`."""
        self._take_subject(wanted.consumer)
        consumer = HostedConsumer(
            self,
            wanted.consumer,
            vhost,
            queue,
            wanted.tag,
            no_ack=wanted.no_ack,
            exclusive=wanted.exclusive,
            priority=wanted.priority,
            prefetch=wanted.prefetch,
        )
        self._consumers[wanted.consumer] = consumer
        if wanted.comes_back:
            self.on_comes_back()
        consumer.unacked = consumer.lapsed = wanted.lapsed
        if wanted.channel is not None:
            self.share_prefetch(consumer, *wanted.channel)
        return consumer

    def share_prefetch(self, consumer: HostedConsumer, number: int, prefetch: int) -> None:
        """See `CallingSession`."""
        channel = consumer.channel or self._channels.get(number)
        if channel is None:
            channel = self._channels[number] = HostedChannel(number)
        consumer.share(channel)
        if channel.prefetch != prefetch:  # each of its consumers tells of it
            channel.prefetch = prefetch
            channel.wake()

    def begun(self, consumer: HostedConsumer, source: ConsumerSource) -> None:
        """See `CallingSession`."""
        consumer.source, consumer.has_begun = source, True
        if self._is_closed or consumer.is_gone:
            consumer.queue.detach((consumer,))
            consumer.vhost.consumers_left(consumer.queue.name)

    def in_time(self, done: Awaitable[Any]) -> Awaitable[Any]:
        """See `CallingSession`."""
        return self._host.in_time(done)

    def refused(self, consumer: HostedConsumer) -> None:
        """See `CallingSession`."""
        if not consumer.has_begun:
            self._forget(consumer)
        elif not consumer.is_gone:
            self._after_end(consumer)

    def _forget(self, consumer: HostedConsumer) -> None:
        consumer.is_gone = True
        if self._consumers.get(consumer.number) is consumer:  # the number may be another one's
            del self._consumers[consumer.number]
        channel = consumer.channel
        if channel is not None:
            consumer.lapse(0)
            channel.consumers.pop(consumer, None)
            if not channel.consumers and self._channels.get(channel.number) is channel:
                del self._channels[channel.number]

    def consumer(self, number: int) -> HostedConsumer:
        """See `CallingSession`."""
        consumer = self._consumers.get(number)
        if consumer is None:
            raise BadSessionMessage(f"there is no consumer {number}")
        return consumer

    def consumers_of(self, queue: Queue, numbers: Sequence[int]) -> list[HostedConsumer]:
        """See `CallingSession`."""
        consumers = [self._consumers[each] for each in numbers if each in self._consumers]
        for consumer in consumers:
            if consumer.queue is not queue:
                raise BadSessionMessage(f"consumer {consumer.number} has another queue")
        return [consumer for consumer in consumers if not consumer.is_gone]

    def leave(self, gone: Sequence[HostedConsumer]) -> None:
        """See `CallingSession`."""
        for consumer in gone:
            consumer.is_gone = True
            consumer.give_up_again()
            self._drop_settled(consumer)


def _resolve(room: "asyncio.Future[bool]", is_open: bool) -> None:
    if not room.done():
        room.set_result(is_open)


_ACTIONS: Mapping[Kind, Callable[[HostedSession, SessionMessage], None]] = {
    Kind.QUEUE: HostedSession._name_queue,
    Kind.PUBLISH: HostedSession._publish,
    Kind.CREDIT: HostedSession._credit,
    Kind.SETTLE: HostedSession._settle,
    Kind.RETURN: HostedSession._return,
    Kind.CALL: HostedSession._call,
    Kind.REPLY: HostedSession._reply,
    Kind.APPLIED: lambda session, message: session.on_applied(message.number),
    Kind.BEAT: lambda session, message: None,
    Kind.TOLD: lambda session, message: session.on_told(message),
    Kind.COUNTS: lambda session, message: session.on_counts(message),
    Kind.TRANSACTION: HostedSession._commit,
}
