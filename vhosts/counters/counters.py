# cython: annotation_typing=False
# mypy: allow-untyped-decorators, no-warn-return-any, disable-error-code="index,name-defined"
"""The counters of one queue, channel, exchange or connection, and the totals above them.

The data plane bumps them once for a run, a batch or a delivery, and knows of nobody who reads them. A total
counts with what is below it, so it does not fall when that is deleted.
"""

from collections.abc import Sequence
from typing import Any, cast

import cython

from routelog.log_backend import Octets

# Of one channel or queue; for another, the oldest is forgotten. An application has some ten of each.
FLOWS_MAX = 512


@cython.final
@cython.cclass
class ChangedCounters:
    """The counters that have changed since they were last sampled.

    Attributes:
        is_watched: somebody samples them; else nothing is noted.
        noted: the counters, each once.
    """

    def __init__(self) -> None:
        self.is_watched = False
        self.noted: list[Any] = []


UNWATCHED = ChangedCounters()  # of flows: who samples the channel or queue samples them with it
NO_FLOWS: dict[Any, Any] = {}  # stays empty


def _make_room(flows: dict[Any, Any]) -> None:
    if len(flows) >= FLOWS_MAX:
        del flows[next(iter(flows))]


@cython.cclass
class Counters:
    """What all counters have in common.

    Attributes:
        is_noted: they are in `ChangedCounters.noted`.
        sampled_at: when they were sampled with a change last, in monotonic seconds; 0: never.
        rates: of a flow, by the second, when it was sampled last; empty: it was not.
        NAMES: of the counts, in the order of `values`.
    """

    NAMES = cast("tuple[str, ...]", ())

    def __init__(self, changed: ChangedCounters) -> None:
        self._changed = changed
        self.is_noted = False
        self.sampled_at = 0.0
        self.rates: tuple[float, ...] = ()
        self._sampled: tuple[int, ...] = ()

    @cython.ccall
    def note(self) -> None:
        """Something of the owner has changed."""
        if not self.is_noted and self._changed.is_watched:
            self.is_noted = True
            self._changed.noted.append(self)

    def values(self) -> tuple[int, ...]:
        """All counts."""
        raise NotImplementedError

    def sample_flow(self, now: float, seconds: float) -> None:
        """Find the rates of a flow, which has no other samples than its last one.

        Args:
            now: monotonic seconds.
            seconds: since the sample before.
        """
        values, before = self.values(), self._sampled or (0,) * len(self.NAMES)
        if values != before and seconds > 0:
            self.rates = tuple(
                [(new - old) / seconds for new, old in zip(values, before, strict=True)]
            )
            self._sampled, self.sampled_at = values, now


@cython.final
@cython.cclass
class ExchangeFlow(Counters):
    """The messages of one exchange that a channel published, or that came to a queue.

    Attributes:
        exchange: its name on the wire.
    """

    NAMES = ("publish",)

    def __init__(self, exchange: bytes) -> None:
        Counters.__init__(self, UNWATCHED)
        self.exchange = exchange
        self.publish = 0

    def values(self) -> tuple[int, ...]:
        """See `Counters`."""
        return (self.publish,)


@cython.final
@cython.cclass
class MessageCounters(Counters):
    """Counts of messages, by RabbitMQ's names.

    Those of a channel and a queue are divided into *flows*: what it published, or got, by exchange; and what a
    channel took, by queue. Neighbouring messages are mostly of one flow, so the flow of the last ones is kept.

    Attributes:
        publish: of a channel: that its client published; of a queue: that came to it, dead letters included.
        to_confirm, confirm: published in confirm mode; basic.ack to the publisher.
        return_unroutable, drop_unroutable: no queue got them; mandatory ones, others.
        deliver, deliver_no_ack: by basic.deliver, to be acknowledged or not.
        get, get_no_ack, get_empty: by basic.get, to be acknowledged or not; calls that found nothing.
        redeliver: of all these, those that were marked redelivered.
        ack: acknowledged by the client.
        rejected: by basic.reject or basic.nack, not requeued.
        expired, maxlen, delivery_limit: of a queue: why others left it without having been acknowledged.
        owner: the queue that they are of; None: of a channel, or it was deleted.
        ready_sampled, unacked_sampled: messages of the queue when it was last sampled.
        from_exchanges: flows by the exchange's name.
        from_queues: of a channel, flows by the queue's counters.

    Args:
        above: totals that count with it.
    """

    NAMES = (
        "publish",
        "confirm",
        "return_unroutable",
        "drop_unroutable",
        "deliver",
        "deliver_no_ack",
        "get",
        "get_no_ack",
        "get_empty",
        "redeliver",
        "ack",
        "rejected",
        "expired",
        "maxlen",
        "delivery_limit",
    )

    def __init__(self, changed: ChangedCounters, above: "MessageCounters | None" = None) -> None:
        Counters.__init__(self, changed)
        self._above = above
        self.owner: Any = None
        self.from_exchanges: dict[bytes, ExchangeFlow] = NO_FLOWS
        self.from_queues: dict[MessageCounters, MessageCounters] = NO_FLOWS
        self._exchange_flow: ExchangeFlow | None = None
        self._queue: MessageCounters | None = None
        self._queue_flow: MessageCounters = cast(Any, None)  # of `_queue`
        self.ready_sampled = self.unacked_sampled = 0
        self.publish = self.to_confirm = self.confirm = 0
        self.return_unroutable = self.drop_unroutable = 0
        self.deliver = self.deliver_no_ack = self.redeliver = self.ack = 0
        self.get = self.get_no_ack = self.get_empty = 0
        self.rejected = self.expired = self.maxlen = self.delivery_limit = 0

    def values(self) -> tuple[int, ...]:
        """See `Counters`."""
        return (
            self.publish,
            self.confirm,
            self.return_unroutable,
            self.drop_unroutable,
            self.deliver,
            self.deliver_no_ack,
            self.get,
            self.get_no_ack,
            self.get_empty,
            self.redeliver,
            self.ack,
            self.rejected,
            self.expired,
            self.maxlen,
            self.delivery_limit,
        )

    def count_with(self, above: "MessageCounters") -> None:
        """Count with other totals from here on."""
        self._above = above

    @cython.ccall
    @cython.locals(count=cython.longlong)
    def published(self, count: int) -> None:
        """Messages were published by a channel, or came to a queue."""
        self.note()
        self.publish += count
        if self._above is not None:
            self._above.published(count)

    @cython.ccall
    @cython.locals(exchange=bytes, count=cython.longlong, flow=ExchangeFlow)
    def published_to(self, exchange: bytes, count: int) -> None:
        """As `published`; and they are of this exchange's flow."""
        flow = self._exchange_flow
        if flow is None or flow.exchange != exchange:
            flow = self._exchange_flow = self._flow_of_exchange(exchange)
        flow.publish += count
        self.published(count)

    def _flow_of_exchange(self, exchange: bytes) -> ExchangeFlow:
        if self.from_exchanges is NO_FLOWS:
            self.from_exchanges = {}
        flow = self.from_exchanges.get(exchange)
        if flow is None:
            _make_room(self.from_exchanges)
            flow = self.from_exchanges[exchange] = ExchangeFlow(exchange)
        return flow

    @cython.cfunc
    @cython.locals(queue="MessageCounters")
    def _takes_from(self, queue: "MessageCounters") -> None:
        # What a channel takes from now on is of this queue: `_queue_flow` counts it.
        if queue is not self._queue:
            self._queue, self._queue_flow = queue, self._flow_of_queue(queue)

    def _flow_of_queue(self, queue: "MessageCounters") -> "MessageCounters":
        if self.from_queues is NO_FLOWS:
            self.from_queues = {}
        flow = self.from_queues.get(queue)
        if flow is None:
            _make_room(self.from_queues)
            flow = self.from_queues[queue] = MessageCounters(UNWATCHED)
        return flow

    def sample_flows(self, now: float, seconds: float) -> None:
        """See `sample_flow`."""
        for exchange_flow in self.from_exchanges.values():
            exchange_flow.sample_flow(now, seconds)
        for queue_flow in self.from_queues.values():
            queue_flow.sample_flow(now, seconds)

    @cython.ccall
    @cython.locals(count=cython.longlong)
    def expects_confirms(self, count: int) -> None:
        """Of the messages that a channel published, so many are to be confirmed."""
        self.to_confirm += count
        if self._above is not None:
            self._above.expects_confirms(count)

    @cython.ccall
    @cython.locals(count=cython.longlong)
    def confirmed(self, count: int) -> None:
        """Messages were confirmed."""
        self.note()
        self.confirm += count
        if self._above is not None:
            self._above.confirmed(count)

    @cython.ccall
    @cython.locals(count=cython.longlong, returned=cython.bint)
    def unroutable(self, count: int, returned: bool) -> None:
        """Published messages reached no queue: they were returned, or dropped."""
        self.note()
        if returned:
            self.return_unroutable += count
        else:
            self.drop_unroutable += count
        if self._above is not None:
            self._above.unroutable(count, returned)

    @cython.ccall
    @cython.locals(
        channel="MessageCounters",
        count=cython.longlong,
        no_ack=cython.bint,
        redelivered=cython.bint,
    )
    def delivered(
        self, channel: "MessageCounters", count: int, no_ack: bool, redelivered: bool
    ) -> None:
        """A delivery of this queue went out on a channel."""
        self._delivered(count, no_ack, redelivered)
        channel._delivered(count, no_ack, redelivered)
        channel._takes_from(self)
        channel._queue_flow._delivered(count, no_ack, redelivered)

    @cython.cfunc
    @cython.locals(count=cython.longlong, no_ack=cython.bint, redelivered=cython.bint)
    def _delivered(self, count: int, no_ack: bool, redelivered: bool) -> None:
        self.note()
        if no_ack:
            self.deliver_no_ack += count
        else:
            self.deliver += count
        if redelivered:
            self.redeliver += count
        if self._above is not None:
            self._above._delivered(count, no_ack, redelivered)

    @cython.ccall
    @cython.locals(channel="MessageCounters", no_ack=cython.bint, redelivered=cython.bint)
    def got(self, channel: "MessageCounters", no_ack: bool, redelivered: bool) -> None:
        """A message of this queue was taken by a channel."""
        self._got(no_ack, redelivered)
        channel._got(no_ack, redelivered)
        channel._takes_from(self)
        channel._queue_flow._got(no_ack, redelivered)

    @cython.cfunc
    @cython.locals(no_ack=cython.bint, redelivered=cython.bint)
    def _got(self, no_ack: bool, redelivered: bool) -> None:
        self.note()
        if no_ack:
            self.get_no_ack += 1
        else:
            self.get += 1
        if redelivered:
            self.redeliver += 1
        if self._above is not None:
            self._above._got(no_ack, redelivered)

    @cython.ccall
    @cython.locals(channel="MessageCounters")
    def got_nothing(self, channel: "MessageCounters") -> None:
        """A channel wanted a message of this queue, which had none."""
        self._got_nothing()
        channel._got_nothing()
        channel._takes_from(self)
        channel._queue_flow._got_nothing()

    @cython.cfunc
    def _got_nothing(self) -> None:
        self.note()
        self.get_empty += 1
        if self._above is not None:
            self._above._got_nothing()

    @cython.ccall
    @cython.locals(channel="MessageCounters", count=cython.longlong)
    def acked(self, channel: "MessageCounters", count: int) -> None:
        """A channel acknowledged messages of this queue."""
        self._acked(count)
        channel._acked(count)
        channel._takes_from(self)
        channel._queue_flow._acked(count)

    @cython.cfunc
    @cython.locals(count=cython.longlong)
    def _acked(self, count: int) -> None:
        self.note()
        self.ack += count
        if self._above is not None:
            self._above._acked(count)

    @cython.ccall
    @cython.locals(channel="MessageCounters", count=cython.longlong)
    def refused(self, channel: "MessageCounters", count: int) -> None:
        """A channel rejected messages of this queue, which do not come back."""
        self._refused(count)
        channel._refused(count)
        channel._takes_from(self)
        channel._queue_flow._refused(count)

    @cython.cfunc
    @cython.locals(count=cython.longlong)
    def _refused(self, count: int) -> None:
        self.note()
        self.rejected += count
        if self._above is not None:
            self._above._refused(count)

    def leave(self) -> None:
        """The owner is deleted; who samples the counters lets go of it."""
        self.note()
        if not self.is_noted:
            self.owner = None

    @cython.locals(count=cython.longlong)
    def dropped(self, reason: str, count: int) -> None:
        """Messages left this queue by a rule.

        Args:
            reason: of x-death; that of a rejected message is counted by its channel.
        """
        self.note()
        if reason == "expired":
            self.expired += count
        elif reason == "maxlen":
            self.maxlen += count
        elif reason == "delivery_limit":
            self.delivery_limit += count
        if self._above is not None:
            self._above.dropped(reason, count)


@cython.final
@cython.cclass
class ExchangeCounters(Counters):
    """Counts of messages that clients published to one exchange.

    Attributes:
        publish_in: that came in.
        publish_out: that went to queues, once for each.
    """

    NAMES = ("publish_in", "publish_out")

    def __init__(self, changed: ChangedCounters) -> None:
        Counters.__init__(self, changed)
        self.publish_in = self.publish_out = 0

    def values(self) -> tuple[int, ...]:
        """See `Counters`."""
        return self.publish_in, self.publish_out

    @cython.ccall
    @cython.locals(count=cython.longlong, routed=cython.longlong)
    def published(self, count: int, routed: int) -> None:
        """Messages came in, and went to so many queues, summed over the messages."""
        self.note()
        self.publish_in += count
        self.publish_out += routed


@cython.final
@cython.cclass
class TrafficCounters(Counters):
    """Counts of one connection's bytes, without those of TLS, and of its reads and writes.

    Attributes:
        recv_oct, send_oct: bytes.
        recv_cnt, send_cnt: reads and writes, which RabbitMQ calls packets.
    """

    NAMES = ("recv_oct", "recv_cnt", "send_oct", "send_cnt")

    def __init__(self, changed: ChangedCounters, above: "TrafficCounters | None" = None) -> None:
        Counters.__init__(self, changed)
        self._above = above
        self.recv_oct = self.recv_cnt = self.send_oct = self.send_cnt = 0

    def values(self) -> tuple[int, ...]:
        """See `Counters`."""
        return self.recv_oct, self.recv_cnt, self.send_oct, self.send_cnt

    @cython.ccall
    @cython.locals(size=cython.Py_ssize_t)
    def received(self, size: int) -> None:
        """So many bytes were read."""
        self.note()
        self.recv_oct += size
        self.recv_cnt += 1
        if self._above is not None:
            self._above.received(size)

    @cython.locals(size=cython.Py_ssize_t)
    def sent(self, parts: Sequence[Octets]) -> None:
        """What lies in these parts was written."""
        size = 0
        for part in parts:
            size += len(part)
        self._sent(size)

    @cython.cfunc
    @cython.locals(size=cython.Py_ssize_t)
    def _sent(self, size: int) -> None:
        self.note()
        self.send_oct += size
        self.send_cnt += 1
        if self._above is not None:
            self._above._sent(size)
