# cython: annotation_typing=False
# mypy: allow-untyped-decorators, no-warn-return-any, disable-error-code="index,name-defined"
"""The consuming side of a channel: consumers, prefetch, unsettled deliveries, basic.get."""

import asyncio
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count

import cython
from pamqp import commands

from routelog.amqp_front.consuming.ack_timeouts import AckTimeouts
from routelog.amqp_front.consuming.channel_consumer import (
    COUNT_HEADER,
    ChannelConsumer,
    delivery_counts,
)
from routelog.amqp_front.consuming.client_channel import ClientChannel
from routelog.amqp_front.consuming.consumer_timeout import wanted_timeout
from routelog.amqp_front.consuming.delivery_lease import DeliveryLease
from routelog.amqp_front.consuming.redelivery import Redelivery
from routelog.amqp_front.consuming.settling import (
    LEAVING_MAX,
    MESSAGES_MAX,
    RUNS_MAX,
    Settling,
    settled_in_turns,
)
from routelog.amqp_front.consuming.stream_consumer import StreamConsumer
from routelog.amqp_front.consuming.tag_order import TagOrder
from routelog.amqp_front.consuming.unacked import (
    Holder,
    Taken,
    Unacked,
    UnackedRun,
    UnknownDeliveryTag,
    messages_of,
)
from routelog.amqp_front.wire.command import ACK, DISCARD, REFUSE, REQUEUE, SettleRun
from routelog.amqp_front.wire.content_frames import body_view, content_frames
from routelog.amqp_front.wire.deliver_frames import encode_deliveries
from routelog.amqp_front.wire.errors import (
    NOT_ALLOWED,
    NOT_IMPLEMENTED,
    PRECONDITION_FAILED,
    HardError,
    SoftError,
)
from routelog.amqp_front.wire.methods import encode_method
from routelog.amqp_front.wire.properties import Properties, visible_properties
from routelog.log_backend import Octets, Reason, Records, random_name
from routelog.vhosts import (
    CREDIT_UNLIMITED,
    GROUP,
    Answer,
    ChannelPrefetch,
    ConsumeOptions,
    ConsumerSource,
    Delivery,
    QueueHandle,
    ReaderFilter,
    ReturnReason,
    after,
    filter_arguments,
    put_back,
    reader_filter,
    then,
    wanted_group,
)

STREAM_OFFSET = "x-stream-offset"
CANCEL_ON_FAILOVER = "x-cancel-on-ha-failover"
CONSUMERS_MAX = 4_096  # of one channel; each costs memory on the word of a stranger
CONNECTION_CONSUMERS_MAX = 16_384  # of all channels: when they go at once, nobody else has a turn

_CHANNELS = count(1)

_OUTCOMES: Mapping[int, Reason | ReturnReason] = {
    ACK: Reason.ACKED,
    DISCARD: Reason.REJECTED,
    REQUEUE: ReturnReason.RETURNED,
    REFUSE: ReturnReason.FAILED,
}

# Compiled code reads this as a C variable: a module's names it reads as slowly as Python does.
_CREDIT_UNLIMITED = cython.declare(cython.longlong, CREDIT_UNLIMITED)
_ACKED = Reason.ACKED  # a look-up in the enum takes 0.07 us

_GET_EMPTY = struct.pack(">HHB", 60, 72, 0)


@cython.final
@cython.cclass
class Consumption:
    """Consumers and deliveries of one channel.

    Attributes:
        consumers: by tag; changed only here.
        next_tag: delivery tag of the next delivery.
        prefetch: for consumers that begin from now on.
        channel_prefetch: for all consumers together; 0 is no limit. `limit_channel` changes it.
    """

    def __init__(self, channel: ClientChannel) -> None:
        self._channel = channel
        self.number = channel.number
        self.body_frame_max = channel.body_frame_max
        self.vhost = channel.vhost
        self.counters = channel.counters
        self.next_tag = 1
        self.prefetch = 0
        self.channel_prefetch = 0
        self._shared: ChannelPrefetch | None = None  # what consumers know of it
        self.unacked = Unacked()
        self._partitioned: set[Holder] = set()  # consumers of queues with several partitions
        self._held = 0  # unsettled deliveries of consumers, not of basic.get
        self.consumers: dict[str, ChannelConsumer] = {}
        self._reply_tag: str | None = None
        self._first_woken = 0
        self._redelivery: Redelivery | None = None
        self._settling: asyncio.Future[None] | None = None
        self._is_closed = False
        self._ack_timeouts: AckTimeouts | None = None

    # -- what consumers need (ConsumingChannel)

    @cython.ccall
    @cython.returns(cython.longlong)
    @cython.exceptval(-1, check=True)
    def credit(self) -> int:
        """See `ConsumingChannel`."""
        channel = self._channel
        if self._is_closed or channel.connection.stalled or not channel.flow_active:
            return 0
        if not self.channel_prefetch:
            return _CREDIT_UNLIMITED
        return max(0, self.channel_prefetch - self._held)  # it may have been larger before

    @property
    def stalled(self) -> bool:
        """See `RecoveringConsumption`."""
        return self._channel.connection.stalled

    def write(self, frames: bytes | bytearray) -> None:
        """See `ConsumingChannel`."""
        self._channel.connection.write(frames)

    @cython.ccall
    def write_parts(self, parts: Sequence[Octets]) -> None:
        """See `ConsumingChannel`."""
        self._channel.connection.write_parts(parts)

    @cython.ccall
    @cython.locals(run=UnackedRun)
    def add_unacked(self, run: UnackedRun) -> None:
        """See `ConsumingChannel`."""
        self._held += run.end_tag - run.first_tag
        self.unacked.add(run)

    def trace(self, queue: str, delivery: Delivery) -> None:
        """See `ConsumingChannel`."""
        for each in self.vhost.listeners:
            each.delivered(self._channel, queue, delivery)

    def sample(self, delivery: Delivery) -> None:
        """See `ConsumingChannel`."""
        self._channel.services.deliveries.take(delivery)

    def fail(self, error: Exception) -> None:
        """See `ConsumingChannel`."""
        self._channel.connection.fail(error)

    def end_leases(self, holder: ChannelConsumer, end_tag: int) -> int:
        """See `LeasedConsumption`."""
        if self.unacked.first_below(end_tag) is not None:
            if self._ack_timeouts is None:
                self._ack_timeouts = AckTimeouts(self, self._channel.services)
            self._ack_timeouts.end(holder, end_tag)
        return holder.unacked - holder.lapsed

    def consumer_failed(self, consumer: ChannelConsumer, error: Exception) -> None:
        """See `ConsumingChannel`."""
        # The channel may just have been closed for another.
        if consumer.tag in self.consumers and not self._is_closed:
            self._channel.connection.fail(error, 60, 20, self._channel)

    def consumer_ended(self, consumer: ChannelConsumer) -> None:
        """See `ConsumingChannel`."""
        is_told = self._channel.cancel_notify and not self._is_closed
        if self._forget(consumer.tag) is not None and is_told:
            self._channel.cancelled(
                encode_method(
                    self.number, commands.Basic.Cancel, consumer_tag=consumer.tag, nowait=True
                )
            )

    # -- consumers

    def consume(
        self,
        queue: QueueHandle,
        tag: str,
        arguments: Mapping[str, object],
        begun: Callable[[], None],
        *,
        no_ack: bool,
        exclusive: bool,
    ) -> Answer[None]:
        """Consume from a queue.

        Args:
            tag: a free one.
            begun: called when the queue has the consumer, before its first delivery.

        Raises:
            SoftError: 406, a priority or a timeout that cannot be.
            InvalidConsumerArgument, InvalidFilter, and see `QueueHandle.attach`.
        """
        priority = arguments.get("x-priority", 0)
        if isinstance(priority, bool) or not isinstance(priority, int):
            raise SoftError(PRECONDITION_FAILED, "x-priority is not an integer")
        timeout = wanted_timeout(arguments)
        if GROUP in arguments:
            kind: type[ChannelConsumer] = StreamConsumer
            self._check_prefetch(queue, needed=queue.is_stream and not no_ack)
        elif queue.is_stream or STREAM_OFFSET in arguments:
            kind = StreamConsumer
            self._check_reader(queue, no_ack=no_ack)
        else:
            kind = ChannelConsumer
        consumer = kind(
            self,
            queue,
            tag,
            no_ack=no_ack,
            exclusive=exclusive,
            priority=priority,
            prefetch=self.prefetch,
        )
        consumer.timeout = timeout
        group = wanted_group(arguments)
        place = arguments.get(STREAM_OFFSET, "next") if kind is StreamConsumer else None
        is_reader = place is not None and group is None
        options = ConsumeOptions(
            group,
            place,
            self._channel.services.clock.now(),
            cancel_on_failover=arguments.get(CANCEL_ON_FAILOVER) is True,
            shared=self._share_prefetch(),
        )
        filtering = filter_arguments(arguments)

        def begin(source: ConsumerSource) -> None:
            if self._is_closed:  # meanwhile
                consumer.queue.detach(
                    (consumer,)
                )  # a front's may be another one, of a node that leads now
                self.vhost.definitions.consumers_left(queue.name)
            else:
                self._start(consumer, source, has_lease=not (no_ack or is_reader))
                begun()

        if filtering is None:
            return queue.attach(consumer, options, begin)
        # No function in here has `begin`: compiled, it would be a cycle, and a channel wait for the collector.
        attach = partial(_attach_filtered, queue, consumer, options, begin)
        return after(reader_filter(filtering), attach)

    def limit_channel(self, prefetch: int) -> None:
        """Let all consumers together have so many deliveries unsettled from now on; 0: any number."""
        self.channel_prefetch = prefetch
        self._share_prefetch()
        self.wake()

    def _share_prefetch(self) -> ChannelPrefetch:
        shared = self._shared
        if shared is None:
            shared = self._shared = ChannelPrefetch(next(_CHANNELS), 0)
        shared.count = self.channel_prefetch
        return shared

    def _check_reader(self, queue: QueueHandle, *, no_ack: bool) -> None:
        if no_ack:
            where = f"'{queue.name}' in vhost '{queue.vhost}'"
            raise HardError(NOT_IMPLEMENTED, f"automatic acknowledgement of stream {where}")
        self._check_prefetch(queue, needed=True)

    def _check_prefetch(self, queue: QueueHandle, *, needed: bool) -> None:
        if needed and not self.prefetch:
            where = f"'{queue.name}' in vhost '{queue.vhost}'"
            reason = f"consumer prefetch count is not set for stream {where}"
            raise SoftError(PRECONDITION_FAILED, reason)

    def _start(self, consumer: ChannelConsumer, source: ConsumerSource, *, has_lease: bool) -> None:
        consumer.source = source
        if has_lease:
            consumer.lease = self._lease(consumer)
        self.consumers[consumer.tag] = consumer
        if consumer.queue.partition_count > 1:
            self._partitioned.add(consumer)
        self._channel.connection.consumers += 1

    def _lease(self, consumer: ChannelConsumer) -> DeliveryLease[ChannelConsumer]:
        services = self._channel.services
        seconds = partial(consumer.lease_seconds, services.config.consumer_timeout_seconds)
        now, call_later = services.clock.monotonic, services.loop.call_later
        return DeliveryLease(self, consumer, seconds, now, call_later)

    def cancel(self, tag: str) -> ChannelConsumer | None:
        """Forget a consumer; the caller takes it off its queue. Its deliveries stay unsettled."""
        if tag == self._reply_tag:
            self._close_replies()
        return self._forget(tag)

    def _forget(self, tag: str) -> ChannelConsumer | None:
        consumer = self.consumers.pop(tag, None)
        if consumer is not None:
            self._partitioned.discard(consumer)
            self._channel.connection.consumers -= 1
            if not consumer.unacked:
                consumer.end_lease()
        return consumer

    def free_tag(self, tag: str) -> str:
        """A tag for another consumer: this one, or one of our own when it is empty.

        Raises:
            HardError: 530, the tag is in use or there are too many consumers.
        """
        tag = tag or f"amq.ctag-{random_name()}"
        if tag in self.consumers or tag == self._reply_tag:
            raise HardError(NOT_ALLOWED, f"attempt to reuse consumer tag '{tag}'")
        if len(self.consumers) >= CONSUMERS_MAX:
            raise HardError(NOT_ALLOWED, f"a channel has at most {CONSUMERS_MAX} consumers")
        if self._channel.connection.consumers >= CONNECTION_CONSUMERS_MAX:
            reason = f"a connection has at most {CONNECTION_CONSUMERS_MAX} consumers"
            raise HardError(NOT_ALLOWED, reason)
        return tag

    # -- direct reply-to

    def consume_replies(self, tag: str, *, no_ack: bool) -> None:
        """Consume from the pseudo-queue under a free tag.

        Raises:
            SoftError: 406, it must be without acks, and once for a channel.
        """
        if not no_ack:
            raise SoftError(PRECONDITION_FAILED, "reply consumer cannot acknowledge")
        if self._reply_tag is not None:
            raise SoftError(PRECONDITION_FAILED, "reply consumer already set")
        self._reply_tag = tag
        self._channel.reply_address = self._channel.services.replies.open(self)

    def reply(self, records: Records) -> None:
        """See `ReplyConsumer`. Replies to a client that does not read them are lost."""
        assert self._reply_tag is not None
        if self._channel.connection.outbox_full:
            return
        tag = self._reply_tag.encode()
        first = self.next_tag
        self.next_tag += records.count
        limit = self.body_frame_max
        self.write(
            encode_deliveries(records, 0, records.count, self.number, tag, first, False, limit)
        )

    def _close_replies(self) -> None:
        if self._channel.reply_address is not None:
            self._channel.services.replies.close(self._channel.reply_address)
        self._channel.reply_address = self._reply_tag = None

    # -- basic.get

    def get(self, queue: QueueHandle, *, no_ack: bool) -> Answer[None]:
        """Answer a basic.get."""
        return after(queue.get(), partial(self._got, queue, no_ack))

    def _got(self, queue: QueueHandle, no_ack: bool, delivery: Delivery | None) -> None:
        if self._is_closed:  # meanwhile
            if delivery is not None:
                put_back(delivery)
            return
        if delivery is None:
            queue.counters.got_nothing(self.counters)
            self.write(struct.pack(">BHI", 1, self.number, 5) + _GET_EMPTY + b"\xce")
            return
        try:
            self._send_got(delivery, queue)
        except BaseException:  # a message that cannot be encoded would be in nobody's hands
            put_back(delivery)
            raise
        delivery.partition.counters.got(self.counters, no_ack, delivery.redelivered)
        if self.vhost.listeners:
            self.trace(queue.name, delivery)
        if no_ack:
            delivery.partition.settle(delivery.offset, delivery.offset + 1)
        else:
            tag = self.next_tag
            self.unacked.add(UnackedRun(tag, tag + 1, delivery.partition, delivery.offset, None))
        self.next_tag += 1

    def _send_got(self, delivery: Delivery, queue: QueueHandle) -> None:
        records, index = delivery.records, delivery.index
        properties = visible_properties(records, index)
        if queue.counts_deliveries:  # 0 as well, as RabbitMQ's quorum queues answer a basic.get
            (count,) = delivery_counts(delivery)
            properties = Properties(properties).with_integers({COUNT_HEADER: count})
        self.write_parts(
            content_frames(
                self.number,
                self.body_frame_max,
                properties,
                body_view(records, index),
                commands.Basic.GetOk,
                delivery_tag=self.next_tag,
                redelivered=delivery.redelivered,
                exchange=records.exchange,
                routing_key=records.routing_key(index),
                message_count=queue.ready,
            )
        )

    # -- settling

    @cython.ccall
    @cython.locals(run=SettleRun)
    def settle(self, run: SettleRun) -> asyncio.Future[None] | None:
        """Settle or return deliveries; what is not done at once is awaited before anything else.

        Raises:
            SoftError: 406, a delivery tag is unknown. What the run has before it was a command of its own, and
                is settled.
        """
        try:
            runs = self._take(run)
        except UnknownDeliveryTag as error:
            if not run.multiple and error.tag > run.first:
                before = self.unacked.take(run.first, error.tag - 1)
                self._finish(before, _OUTCOMES[run.outcome])
            raise _unknown(error) from None
        return self._finish(runs, _OUTCOMES[run.outcome])

    def finish(self, taken: Taken) -> asyncio.Future[None] | None:
        """Settle or return deliveries that were taken; None: that is done, else it is when this is."""
        return self._finish(taken.runs, taken.outcome)

    @cython.cfunc
    def _finish(
        self, runs: list[UnackedRun], outcome: Reason | ReturnReason
    ) -> asyncio.Future[None] | None:
        if len(runs) <= RUNS_MAX and messages_of(runs) <= MESSAGES_MAX:
            if self.channel_prefetch:
                self.begin_turn()
            self._end_runs(runs, outcome)
            return None
        self._settling = settled_in_turns(Settling(self, runs, outcome, self._channel.services))
        return self._settling

    def take(self, run: SettleRun) -> Taken:
        """Take deliveries off the unsettled ones; `finish` them.

        Raises:
            SoftError: 406, a delivery tag is unknown.
        """
        try:
            return Taken(self._take(run), _OUTCOMES[run.outcome])
        except UnknownDeliveryTag as error:
            raise _unknown(error) from None

    @cython.cfunc
    @cython.returns(list)
    @cython.locals(run=SettleRun, unacked=Unacked)
    def _take(self, run: SettleRun) -> list[UnackedRun]:
        unacked, last = self.unacked, run.last
        return unacked.take_up_to(last) if run.multiple else unacked.take(run.first, last)

    def recover(self) -> asyncio.Future[None] | None:
        """Return everything that is unsettled; see `settle`."""
        return self.finish(Taken(self.unacked.take_all(), ReturnReason.RETURNED))

    def redeliver(self) -> Redelivery:
        """Deliver what is unsettled to its consumers once more; what has none is returned."""
        self._redelivery = Redelivery(self, self._channel.services)
        return self._redelivery

    def deliver_again(self, run: UnackedRun, deliveries: Iterable[Delivery]) -> None:
        """See `RecoveringConsumption`."""
        self.unacked.take(run.first_tag, run.end_tag - 1)
        consumer = self.redeliverable(run)
        assert consumer is not None
        self.let_go(consumer, len(run))
        for delivery in deliveries:
            if consumer in self._partitioned:
                delivery.partition_index = consumer.queue.partition_index(run.partition)
            consumer.deliver(delivery)

    def redeliverable(self, run: UnackedRun) -> ChannelConsumer | None:
        """See `RecoveringConsumption`."""
        consumer = run.consumer
        if isinstance(consumer, ChannelConsumer) and self.consumers.get(consumer.tag) is consumer:
            return consumer
        return None

    def begin_turn(self) -> None:
        """See `Holdings`."""
        if self.channel_prefetch:
            self.wake()  # ahead of the queues that the deliveries are of: each has its turn

    @cython.ccall
    @cython.locals(count=cython.longlong)
    def let_go(self, holder: Holder, count: int) -> None:
        """See `Holdings`."""
        holder.unacked -= count
        self._held -= count
        holder.source.has_credit(holder)
        if self._is_closed:
            holder.end_lease()  # of a cancelled one, too

    @cython.cfunc
    @cython.locals(run=UnackedRun, count=cython.longlong, offset=cython.longlong)
    def _end_runs(self, runs: Iterable[UnackedRun], outcome: Reason | ReturnReason) -> None:
        for run in runs:
            count = run.end_tag - run.first_tag
            consumer, partition, offset = run.consumer, run.partition, run.offset
            if consumer is not None:
                self.let_go(consumer, count)
            if isinstance(outcome, ReturnReason):
                partition.give_back(offset, offset + count, outcome)
                partition.counters.note()
            else:
                partition.settle(offset, offset + count, outcome)
                if outcome is _ACKED:
                    partition.counters.acked(self.counters, count)
                else:
                    partition.counters.refused(self.counters, count)
            if partition.ready or (self._partitioned and consumer in self._partitioned):
                partition.on_ready()  # the queue's other partitions may have what is ready

    def wake(self) -> None:
        """There may be credit again: let the queues of all consumers look, another one first each time."""
        if self._redelivery is not None:
            self._redelivery.wake()
        consumers = list(self.consumers.values())
        first = self._first_woken = (self._first_woken + 1) % max(1, len(consumers))
        for consumer in consumers[first:] + consumers[:first]:
            source = consumer.source
            source.has_credit(consumer)
            if isinstance(consumer, StreamConsumer) or source.ready:  # readers may lag
                source.on_ready()

    def close(self, taken: Sequence[list[UnackedRun]] = ()) -> asyncio.Future[None] | None:
        """Return everything unsettled and end all consumers; None: all nodes know it, or see `Settling.known`.

        Args:
            taken: see `leave`.
        """
        few = len(self.consumers) <= LEAVING_MAX
        is_first = self._settling is None or self._settling.done()
        settling = self.leave(taken)
        if is_first and few and settling.are_few:
            settling.at_once()
            return settling.known()
        return then(settled_in_turns(settling), lambda _: settling.known())

    def stop(self) -> None:
        """Deliver nothing more; what is unsettled and the consumers stay until they `leave`."""
        self._is_closed = True  # who is in the middle of delivering stops
        self._ack_timeouts = None
        if self._reply_tag is not None:
            self._close_replies()

    def leave(self, taken: Sequence[list[UnackedRun]] = ()) -> Settling:
        """End all consumers; they leave their queues, and all that is unsettled comes back, as this goes on.

        Args:
            taken: of what is unsettled, what a transaction had taken, in any order.
        """
        self.stop()
        consumers = list(self.consumers.values())
        self.consumers.clear()
        self._partitioned.clear()
        self._channel.connection.consumers -= len(consumers)
        for consumer in consumers:
            consumer.end_lease()
        order = None
        if not self.unacked.put_back_few(taken):
            order = TagOrder([*taken, self.unacked.take_all()])
        runs = self.unacked.take_all()
        return Settling(self, runs, ReturnReason.FAILED, self._channel.services, consumers, order)


def _unknown(error: UnknownDeliveryTag) -> SoftError:
    return SoftError(PRECONDITION_FAILED, str(error))


def _attach_filtered(
    queue: QueueHandle,
    consumer: ChannelConsumer,
    options: ConsumeOptions,
    begin: Callable[[ConsumerSource], None],
    wanted: ReaderFilter,
) -> Answer[None]:
    return queue.attach(consumer, replace(options, wanted=wanted), begin)
