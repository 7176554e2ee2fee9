# cython: annotation_typing=False
# mypy: allow-untyped-decorators, no-warn-return-any, disable-error-code="index,name-defined"
"""A consumer of a channel, as its queue sees it."""

from collections.abc import Iterator, Sequence
from typing import Protocol

import cython

from routelog.amqp_front.consuming.consumer_timeout import lease_seconds
from routelog.amqp_front.consuming.delivery_lease import DeliveryLease
from routelog.amqp_front.consuming.unacked import UnackedRun, new_run
from routelog.amqp_front.wire.added_headers import NO_HEADERS, AddedHeaders
from routelog.amqp_front.wire.content_frames import deliveries_in_parts, is_large
from routelog.amqp_front.wire.deliver_frames import encode_deliveries
from routelog.amqp_front.wire.properties import Properties, visible_properties
from routelog.log_backend import BLIND_COPIES, Octets
from routelog.log_backend.records.record_batch import Records
from routelog.vhosts import (
    CREDIT_UNLIMITED,
    ConsumerSource,
    MessageCounters,
    QueueHandle,
    QueueStopped,
    VirtualHost,
)
from routelog.vhosts.messages.delivery import Delivery

COUNT_HEADER = b"x-delivery-count"
SAMPLED_ONE_IN = 64  # deliveries of a consumer, the first one included: see `DeliverySamples`

# Compiled code reads these as C variables: a module's names it reads as slowly as Python does.
_CREDIT_UNLIMITED = cython.declare(cython.longlong, CREDIT_UNLIMITED)
_BLIND_COPIES = cython.declare(cython.uint, BLIND_COPIES)
_SAMPLED_ONE_IN = cython.declare(cython.longlong, SAMPLED_ONE_IN)


class ConsumingChannel(Protocol):
    """What a consumer needs of its channel's consumption."""

    number: int
    body_frame_max: int
    next_tag: int
    vhost: VirtualHost
    counters: MessageCounters

    def trace(self, queue: str, delivery: Delivery) -> None:
        """Tell the vhost's listeners of a delivery."""

    def sample(self, delivery: Delivery) -> None:
        """Measure a delivery."""

    def credit(self) -> int:
        """How many deliveries the channel as a whole takes now."""

    def write_parts(self, parts: Sequence[Octets]) -> None:
        """Send frames to the client that lie in parts."""

    def add_unacked(self, run: UnackedRun) -> None:
        """Remember deliveries until they are settled."""

    def fail(self, error: Exception) -> None:
        """Close the connection because of a fault of ours."""

    def consumer_failed(self, consumer: "ChannelConsumer", error: Exception) -> None:
        """The queue cannot go on: close the channel."""

    def consumer_ended(self, consumer: "ChannelConsumer") -> None:
        """The queue is gone."""


@cython.cclass
class ChannelConsumer:
    """One basic.consume.

    Attributes:
        source: what it is served by: its queue, or a group of it.
        tag: consumer tag.
        prefetch: deliveries it may have unsettled; 0 is no limit.
        unacked: deliveries it has unsettled.
        lease: ends the time that it has for them; None: it has all the time there is.
        timeout: milliseconds that it may take, as it said itself; None: it did not.
        timed_out: deliveries that were taken back.
    """

    __slots__ = (
        "_channel",
        "_until_sample",
        "_wire_tag",
        "exclusive",
        "lapsed",
        "lease",
        "no_ack",
        "prefetch",
        "priority",
        "queue",
        "source",
        "tag",
        "timed_out",
        "timeout",
        "unacked",
    )

    def __init__(
        self,
        channel: ConsumingChannel,
        queue: QueueHandle,
        tag: str,
        *,
        no_ack: bool,
        exclusive: bool,
        priority: int,
        prefetch: int,
    ) -> None:
        self._channel = channel
        self._wire_tag = tag.encode()
        self._until_sample = 1  # deliveries
        self.queue = queue
        self.source: ConsumerSource = queue
        self.tag = tag
        self.no_ack = no_ack
        self.exclusive = exclusive
        self.priority = priority
        self.prefetch = prefetch
        self.unacked = 0
        self.lapsed = 0  # of them, taken back: not settled in time
        self.lease: DeliveryLease[ChannelConsumer] | None = None
        self.timeout: int | None = None
        self.timed_out = 0

    @property
    def group(self) -> str:
        """Name of the group that it is in; empty when it is in none."""
        return self.source.group

    @cython.ccall
    @cython.returns(cython.longlong)
    @cython.exceptval(-1, check=True)
    @cython.locals(credit=cython.longlong)
    def credit(self) -> int:
        """See `Consumer`."""
        credit = self._channel.credit()
        if self.no_ack:
            return _CREDIT_UNLIMITED if credit > 0 else 0
        if self.prefetch and self.prefetch - self.unacked < credit:
            return self.prefetch - self.unacked
        return credit

    @cython.ccall
    @cython.locals(
        delivery=Delivery, first_tag=cython.longlong, end_tag=cython.longlong, count=cython.longlong
    )
    def deliver(self, delivery: Delivery) -> None:
        """See `Consumer`."""
        channel = self._channel
        first_tag, count = channel.next_tag, delivery.count
        channel.next_tag = end_tag = first_tag + count
        if not self.no_ack:
            self.unacked += count
            run = new_run(first_tag, end_tag, delivery.partition, delivery.offset, self)
            channel.add_unacked(run)
            if self.lease is not None and not self.lease.runs:
                self.lease.begin()
        try:
            parts = self._parts(delivery, first_tag)
        except Exception as error:  # a fault of ours: it must not stop the queue for others
            channel.fail(error)
        else:
            channel.write_parts(parts)
            counters = delivery.partition.counters
            counters.delivered(channel.counters, count, self.no_ack, delivery.redelivered)
            self._until_sample -= 1
            if not self._until_sample:
                self._until_sample = _SAMPLED_ONE_IN
                channel.sample(delivery)
            if channel.vhost.listeners:
                channel.trace(self.queue.name, delivery)

    def lease_seconds(self, default: float) -> float | None:
        """How long it may hold a delivery, by its own word or its queue's; None: for ever."""
        return lease_seconds(self.timeout, self.queue.effective.values, default)

    def end_lease(self) -> None:
        """See `Holder`."""
        if self.lease is not None:
            self.lease.stop()
            self.lease = None  # they know each other: nothing is left for the garbage collector

    def queue_stopped(self, error: QueueStopped) -> None:
        """See `Consumer`."""
        self._channel.consumer_failed(self, error)

    @cython.cfunc
    @cython.locals(delivery=Delivery, first_tag=cython.longlong, records=Records, large=cython.bint)
    def _parts(self, delivery: Delivery, first_tag: int) -> Sequence[Octets]:
        records, channel = delivery.records, self._channel
        added = self._added_headers(delivery)
        large = is_large(records)
        as_published = not records.attributes & _BLIND_COPIES and (
            added is NO_HEADERS or not added.may_be_in(records, delivery.index, delivery.count)
        )
        if as_published and not large:
            frames = encode_deliveries(
                records,
                delivery.index,
                delivery.count,
                channel.number,
                self._wire_tag,
                first_tag,
                delivery.redelivered,
                channel.body_frame_max,
                added,
            )
            return (frames,)
        parts = deliveries_in_parts(
            records,
            delivery.index,
            delivery.count,
            channel.number,
            self._wire_tag,
            first_tag,
            delivery.redelivered,
            channel.body_frame_max,
            _property_lists(delivery, added),
        )
        return parts if large else (b"".join(parts),)

    @cython.ccall
    @cython.locals(delivery=Delivery)
    def _added_headers(self, delivery: Delivery) -> AddedHeaders:
        """What the messages get beside the headers that they were published with."""
        if delivery.redelivered and self.queue.counts_deliveries:
            return AddedHeaders(delivery.count, {COUNT_HEADER: delivery_counts(delivery)})
        return NO_HEADERS

    def queue_deleted(self) -> None:
        """See `Consumer`."""
        self._channel.consumer_ended(self)


def _property_lists(delivery: Delivery, added: AddedHeaders) -> Iterator[bytes]:
    for message in range(delivery.count):
        raw = visible_properties(delivery.records, delivery.index + message)
        yield Properties(raw).with_integers(added.of(message)) if added.names else raw


def delivery_counts(delivery: Delivery) -> list[int]:
    """How often each message of a delivery was delivered again, this one included."""
    offsets = range(delivery.offset, delivery.offset + delivery.count)
    return [delivery.partition.delivery_count(offset) for offset in offsets]
