"""The calls of a session, carried out at the leader: methods by name, with the shapes of their arguments.

A call of a queue (its subject) has arguments of its own. One of no queue begins with the name of a vhost, the
actor [user, address, protocol], and the number of the front's connection; keywords follow, as methods of
`VirtualHost` have them, but arguments of AMQP are bytes (`decode_arguments`). `connection_closed` has a vhost
and a number, `is_reply_open` an address, `carried_out` nothing. Whatever else comes is the fault of the front:
BadSessionMessage.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any, NoReturn, Protocol

import msgspec

from routelog.exchanges import Binding, DestinationKind, Exchange, QueueNotFound
from routelog.log_backend import MalformedProperties, Octets, UnknownFieldType
from routelog.vhosts.actor import Actor, acts
from routelog.vhosts.arguments.argument_table import decode_arguments
from routelog.vhosts.arguments.group_options import GroupOptions
from routelog.vhosts.arguments.queue_properties import QueueProperties
from routelog.vhosts.counters.counters import MessageCounters
from routelog.vhosts.errors import SessionLost
from routelog.vhosts.filters.filter_arguments import filter_arguments
from routelog.vhosts.filters.reader_filter import ReaderFilter, reader_filter
from routelog.vhosts.messages.delivery import Delivery
from routelog.vhosts.queues.queue import Queue
from routelog.vhosts.queues.queue_handle import (
    Answer,
    ConsumeOptions,
    ConsumerSource,
    QueueCounts,
    after,
    then,
)
from routelog.vhosts.sessions.bound_queue import BoundQueue
from routelog.vhosts.sessions.hosted_consumer import HostedConsumer
from routelog.vhosts.sessions.session_message import BadSessionMessage, value_in
from routelog.vhosts.vhost.topology_keeper import Durable
from routelog.vhosts.vhost.vhost import VirtualHost

_Subject = Annotated[int, msgspec.Meta(ge=1, lt=1 << 32)]
_NUMBER_END = 1 << 63  # of what compiled code takes, and AMQP
_Number = Annotated[int, msgspec.Meta(ge=-_NUMBER_END, le=_NUMBER_END - 1)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=_NUMBER_END - 1)]
_Held = Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]  # by a client


class FrontConnection:
    """A client's connection with a front: the owner of exclusive queues.

    Attributes:
        owner_name: for lists.
        vhost: where it works.
        is_closed: it declares nothing more.
    """

    __slots__ = ("is_closed", "owner_name", "vhost")

    def __init__(self, owner_name: str, vhost: VirtualHost) -> None:
        self.owner_name = owner_name
        self.vhost = vhost
        self.is_closed = False


class CallingSession(Protocol):
    """What calls need of their session.

    Attributes:
        counters: see `HostedSession`.
    """

    counters: MessageCounters

    def now(self) -> int:
        """Microseconds since 1970: fronts may have other clocks."""

    def room(self) -> "asyncio.Future[bool] | None":
        """What an answer of any size waits for while much is unsent; it tells whether the session is open."""

    def vhost(self, name: str) -> VirtualHost:
        """A vhost of this node.

        Raises:
            VhostNotFound: there is none of this name.
        """

    def connection(self, number: int) -> FrontConnection | None:
        """A connection of the front; None: it has declared nothing exclusive."""

    def owner(self, number: int, vhost: VirtualHost) -> FrontConnection:
        """A connection of the front that is to own a queue."""

    def connection_closed(self, number: int) -> Answer[object]:
        """A connection of the front is closed: its exclusive queues end, and all nodes know it."""

    def is_reply_open(self, address: bytes) -> bool:
        """Whether somebody may wait at an address for direct replies."""

    def new_consumer(
        self, wanted: "ConsumeCall", vhost: VirtualHost, queue: Queue
    ) -> HostedConsumer:
        """Make a consumer, which is known by its number from here on.

        Raises:
            BadSessionMessage: the number is taken.
        """

    def begun(self, consumer: HostedConsumer, source: ConsumerSource) -> None:
        """The queue has a consumer; the session may be closed by now, or the consumer gone."""

    def in_time(self, done: Awaitable[Any]) -> Awaitable[Any]:
        """See `SessionHost`."""

    def refused(self, consumer: HostedConsumer) -> None:
        """The queue does not take a consumer, or not in time: then it may begin yet, or has begun."""

    def consumer(self, number: int) -> HostedConsumer:
        """A consumer, that may be gone, and has something unsettled then.

        Raises:
            BadSessionMessage: there is none of this number.
        """

    def share_prefetch(self, consumer: HostedConsumer, number: int, prefetch: int) -> None:
        """The channel of a consumer has a prefetch count, which its consumers share; 0 is no limit."""

    def consumers_of(self, queue: Queue, numbers: Sequence[int]) -> list[HostedConsumer]:
        """Consumers of a queue, by their numbers; without those that have gone.

        Raises:
            BadSessionMessage: one has another queue.
        """

    def leave(self, gone: Sequence[HostedConsumer]) -> None:
        """Consumers are delivered nothing more; what they have unsettled may be settled still."""


class _Call(msgspec.Struct, forbid_unknown_fields=True):
    """Keywords of a call."""


class ConsumeCall(_Call):
    """The keywords of `consume`; the front has seen that its client may.

    Attributes:
        consumer: its number from here on.
        lapsed: see `HostedConsumer`.
        group: name, expires, hold_bytes: see `GroupOptions`; None: none.
        place: see `stream_position`; a time is ["time", seconds since 1970].
        places, comes_back: see `ConsumeOptions`.
        filter: see `filter_arguments`.
        channel: its number, and the prefetch count that its consumers share; None: there is none.
    """

    consumer: _Subject
    tag: str
    no_ack: bool
    exclusive: bool
    priority: _Number
    prefetch: _Count
    group: tuple[str, _Count | None, _Count | None] | None
    place: Any
    filter: dict[str, Any] | None
    channel: tuple[_Count, _Count] | None
    places: tuple[_Count, ...] = ()
    comes_back: bool = False
    lapsed: _Held = 0


class RedeliverCall(_Call):
    """The keywords of `redeliver`: the messages [first, end) of a consumer in a partition."""

    consumer: _Subject
    partition: _Count
    first: _Count
    end: _Count


# -- of a queue


def _consume(
    session: CallingSession, bound: BoundQueue, wanted: ConsumeCall
) -> Answer[list[int] | None]:
    # A reader is told where it begins, so that it can go on from there in another session.
    vhost, queue = bound.opened()
    filtering = None if wanted.filter is None else filter_arguments(wanted.filter)
    group = None if wanted.group is None else GroupOptions(*wanted.group)
    places = wanted.places
    if places and len(places) != queue.partition_count:
        raise BadSessionMessage(f"{len(places)} places in {queue}")
    options = ConsumeOptions(
        group, _place(wanted.place), session.now(), places=places, comes_back=wanted.comes_back
    )
    consumer = session.new_consumer(wanted, vhost, queue)
    attach = partial(_attach, session, consumer, queue, options)
    try:
        answer = attach(None) if filtering is None else after(reader_filter(filtering), attach)
    except Exception:
        session.refused(consumer)
        raise
    if not asyncio.isfuture(answer):
        return answer
    attached = asyncio.ensure_future(session.in_time(answer))
    attached.add_done_callback(partial(_attached, session, consumer))
    return attached


def _attach(
    session: CallingSession,
    consumer: HostedConsumer,
    queue: Queue,
    options: ConsumeOptions,
    wanted: ReaderFilter | None,
) -> Answer[list[int] | None]:
    options = replace(options, wanted=wanted)
    attached = queue.attach(consumer, options, partial(session.begun, consumer))
    return after(attached, lambda _: queue.places(consumer) or None)


def _attached(
    session: CallingSession, consumer: HostedConsumer, answer: "asyncio.Future[list[int] | None]"
) -> None:
    if answer.cancelled() or answer.exception() is not None:
        session.refused(consumer)


def _place(place: object) -> object:
    # msgspec 0.22 has no type for it: a union of a bounded number, a text and a tuple ends the process.
    match place:
        case None | str():
            return place
        case int() if -_NUMBER_END <= place < _NUMBER_END:
            return place
        case ["time", int() | float() as seconds]:
            with suppress(ValueError, OverflowError, OSError):
                return datetime.fromtimestamp(seconds, UTC)
    raise BadSessionMessage(f"a place {place!r}")


def _cancel(session: CallingSession, bound: BoundQueue, number: int) -> Durable:
    if not bound.is_open:
        return None
    vhost, queue = bound.opened()
    consumers = session.consumers_of(queue, [number])
    for consumer in consumers:
        queue.cancel(consumer)
    session.leave(consumers)
    return vhost.delete_left(queue.name) if consumers else None


def _detach(session: CallingSession, bound: BoundQueue, numbers: list[int]) -> Durable:
    if not bound.is_open:
        return None
    vhost, queue = bound.opened()
    consumers = session.consumers_of(queue, numbers)
    queue.detach({*consumers})
    session.leave(consumers)
    return vhost.consumers_left(queue.name) if consumers else None


def _lapsed(session: CallingSession, bound: BoundQueue, number: int, count: int) -> None:
    _, queue = bound.opened()
    for consumer in session.consumers_of(queue, [number]):
        consumer.lapse(count)


def _stand_aside(session: CallingSession, bound: BoundQueue, number: int) -> None:
    _, queue = bound.opened()
    for consumer in session.consumers_of(queue, [number]):
        queue.stand_aside(consumer)


def _qos(
    session: CallingSession, bound: BoundQueue, number: int, channel: int, prefetch: int
) -> None:
    _, queue = bound.opened()
    for consumer in session.consumers_of(queue, [number]):
        session.share_prefetch(consumer, channel, prefetch)


def _redeliver(session: CallingSession, _: BoundQueue, wanted: RedeliverCall) -> None:
    if wanted.first >= wanted.end:
        raise BadSessionMessage(f"redelivery of {wanted.first} to {wanted.end}")
    consumer = session.consumer(wanted.consumer)  # the queue may be deleted
    consumer.redeliver(wanted.partition, wanted.first, wanted.end)


def _get(session: CallingSession, bound: BoundQueue, while_paused: bool) -> Answer[object]:
    _, queue = bound.opened()

    def got(delivery: Delivery | None) -> Delivery | None:
        if delivery is None:
            queue.counters.got_nothing(session.counters)
        return delivery

    def get(is_open: bool) -> Answer[Delivery | None]:
        return after(queue.get(while_paused=while_paused), got) if is_open else None

    room = session.room()
    return get(True) if room is None else then(room, get)


def _purge(session: CallingSession, bound: BoundQueue) -> int:
    _, queue = bound.opened()
    return queue.purge()


def _counts(session: CallingSession, bound: BoundQueue) -> Answer[QueueCounts]:
    # Of a passive declaration.
    vhost, queue = bound.opened()
    queue.used()
    return after(vhost.declared(queue), Queue.counts)


# -- of a vhost


class DeclareExchangeCall(_Call):
    """What `Exchange` has."""

    name: str
    kind: str
    durable: bool
    auto_delete: bool
    internal: bool
    arguments: bytes


class DeleteExchangeCall(_Call):
    """The keywords of `VirtualHost.delete_exchange`."""

    name: str
    if_unused: bool


class NameCall(_Call):
    """The name of an exchange."""

    name: str


class BindCall(_Call):
    """The ends of a binding: its destination is a queue, or an exchange."""

    destination: str
    source: str
    routing_key: str
    arguments: bytes


class DeclareQueueCall(_Call):
    """What `QueueProperties` has, and a keyword of `VirtualHost.declare_queue`."""

    name: str
    durable: bool
    exclusive: bool
    auto_delete: bool
    arguments: bytes
    server_named: bool


class DeleteQueueCall(_Call):
    """The name of a queue, and keywords of `VirtualHost.delete_queue_of`."""

    name: str
    if_unused: bool
    if_empty: bool
    number: _Count | None = None


class _Caller:
    # Who calls: a connection of the front, in a vhost.
    def __init__(self, session: CallingSession, vhost: VirtualHost, number: int) -> None:
        self.session = session
        self.vhost = vhost
        self.number = number

    @property
    def connection(self) -> FrontConnection | None:
        return self.session.connection(self.number)


def _declare_exchange(caller: _Caller, wanted: DeclareExchangeCall) -> Answer[object]:
    exchange = Exchange(
        wanted.name,
        wanted.kind,
        wanted.durable,
        wanted.auto_delete,
        wanted.internal,
        _arguments(wanted.arguments),
    )
    declare = partial(caller.vhost.declare_exchange, exchange)
    return _when_free(caller.vhost, "exchange", wanted.name, declare)


def _delete_exchange(caller: _Caller, wanted: DeleteExchangeCall) -> Durable:
    return caller.vhost.delete_exchange(wanted.name, if_unused=wanted.if_unused)


def _exchange_declared(caller: _Caller, wanted: NameCall) -> Durable:
    return caller.vhost.exchange_declared(wanted.name)


def _bind(kind: DestinationKind, caller: _Caller, wanted: BindCall) -> Durable:
    return caller.vhost.bind(_binding(kind, wanted))


def _unbind(kind: DestinationKind, caller: _Caller, wanted: BindCall) -> Durable:
    return caller.vhost.unbind(_binding(kind, wanted))


def _binding(kind: DestinationKind, wanted: BindCall) -> Binding:
    arguments = _arguments(wanted.arguments)
    return Binding(wanted.source, wanted.destination, kind, wanted.routing_key, arguments)


def _declare_queue(caller: _Caller, wanted: DeclareQueueCall) -> Answer[object]:
    vhost = caller.vhost
    properties = QueueProperties(
        wanted.name,
        wanted.durable,
        wanted.exclusive,
        wanted.auto_delete,
        _arguments(wanted.arguments),
    )
    connection = caller.connection
    if wanted.exclusive:
        connection = caller.session.owner(caller.number, vhost)

    def declare() -> Answer[QueueCounts]:
        if connection is not None and connection.is_closed:  # meanwhile
            raise QueueNotFound(wanted.name, vhost.name)
        return vhost.declare_queue_of(properties, connection, server_named=wanted.server_named)

    return _when_free(vhost, "queue", wanted.name, declare)


def _delete_queue(caller: _Caller, wanted: DeleteQueueCall) -> Answer[object]:
    back = caller.vhost.until_consumers_back() if wanted.if_unused else None
    if back is not None:
        return then(back, partial(_ask_again, f"queue '{wanted.name}'"))
    return caller.vhost.delete_queue_of(
        wanted.name,
        caller.connection,
        if_unused=wanted.if_unused,
        if_empty=wanted.if_empty,
        number=wanted.number,
    )


def _ask_again(what: str, _: None) -> NoReturn:
    # Its front checks first whether its client still may: that was known to all nodes meanwhile.
    raise SessionLost(what, "")


def _when_free(
    vhost: VirtualHost, kind: DestinationKind, name: str, declare: Callable[[], Answer[object]]
) -> Answer[object]:
    if not vhost.routing.has_departed(kind, name):
        return declare()
    return asyncio.ensure_future(_declared_when_free(vhost, kind, name, declare))


async def _declared_when_free(
    vhost: VirtualHost, kind: DestinationKind, name: str, declare: Callable[[], Answer[object]]
) -> object:
    await vhost.until_free(kind, name)
    answer = declare()
    return await answer if asyncio.isfuture(answer) else answer


def _arguments(fields: bytes) -> Mapping[str, object]:
    try:
        return decode_arguments(fields)
    except (MalformedProperties, UnknownFieldType) as error:
        raise BadSessionMessage(f"arguments: {error}") from None


# -- the table

_Method = tuple[Any, Callable[..., Answer[object]]]  # the shape of its arguments, and what it does

_QUEUE_METHODS: Mapping[str, _Method] = {
    "consume": (tuple[ConsumeCall], _consume),
    "cancel": (tuple[_Subject], _cancel),
    "detach": (tuple[list[_Subject]], _detach),
    "lapsed": (tuple[_Subject, _Held], _lapsed),
    "stand_aside": (tuple[_Subject], _stand_aside),
    "qos": (tuple[_Subject, _Count, _Count], _qos),
    "redeliver": (tuple[RedeliverCall], _redeliver),
    "get": (tuple[bool], _get),
    "purge": (tuple[()], _purge),
    "counts": (tuple[()], _counts),
}

_VHOST_METHODS: Mapping[str, _Method] = {
    "declare_exchange": (DeclareExchangeCall, _declare_exchange),
    "delete_exchange": (DeleteExchangeCall, _delete_exchange),
    "exchange_declared": (NameCall, _exchange_declared),
    "bind_queue": (BindCall, partial(_bind, "queue")),
    "unbind_queue": (BindCall, partial(_unbind, "queue")),
    "bind_exchange": (BindCall, partial(_bind, "exchange")),
    "unbind_exchange": (BindCall, partial(_unbind, "exchange")),
    "declare_queue": (DeclareQueueCall, _declare_queue),
    "delete_queue": (DeleteQueueCall, _delete_queue),
}


def decode_call(content: Octets) -> tuple[str, list[Any]]:
    """The method of a call, and its arguments.

    Raises:
        BadSessionMessage: it is no call.
    """
    call = value_in(content, list[Any])
    if not call or not isinstance(call[0], str):
        raise BadSessionMessage("a call without a method")
    return call[0], call[1:]


def call_queue(
    session: CallingSession, bound: BoundQueue, method: str, arguments: list[Any]
) -> Answer[object]:
    """Call a method of a queue.

    Raises:
        BadSessionMessage: there is no such method, or it does not take these arguments.
        Exception: what it raises, or its answer has that.
    """
    shape, carry_out = _found(_QUEUE_METHODS, method)
    return carry_out(session, bound, *_shaped(method, arguments, shape))


def call_vhost(session: CallingSession, method: str, arguments: list[Any]) -> Answer[object]:
    """Call a method of a vhost, or of none; see `call_queue`."""
    if method == "connection_closed":
        _, number = _shaped(method, arguments, tuple[str, _Count])
        return session.connection_closed(number)
    if method == "carried_out":  # all that came before is, or has an answer of its own
        _shaped(method, arguments, tuple[()])
        return None
    if method == "is_reply_open":
        return session.is_reply_open(*_shaped(method, arguments, tuple[bytes]))
    shape, carry_out = _found(_VHOST_METHODS, method)
    name, actor, number, keywords = _shaped(
        method, arguments, tuple[str, tuple[str, str, str], _Count, Any]
    )
    caller = _Caller(session, session.vhost(name), number)
    with acts(Actor(*actor)):
        return carry_out(caller, _shaped(method, keywords, shape))


def _found(methods: Mapping[str, _Method], method: str) -> _Method:
    if method not in methods:
        raise BadSessionMessage(f"a call of {method}")
    return methods[method]


def _shaped(method: str, arguments: object, shape: Any) -> Any:
    try:
        return msgspec.convert(arguments, shape)
    except msgspec.ValidationError as error:
        raise BadSessionMessage(f"a call of {method}: {error}") from None
