"""The methods of the exchange and queue classes."""

from asyncio import Future
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Protocol, TypeVar

from pamqp import commands

from routelog.amqp_front.node.services import Services
from routelog.amqp_front.wire.errors import (
    ACCESS_REFUSED,
    NOT_FOUND,
    NOT_IMPLEMENTED,
    HardError,
    SoftError,
)
from routelog.broker import ADDRESS_PREFIX, PSEUDO_QUEUE
from routelog.exchanges import Binding, DefaultExchangeProtected, Exchange
from routelog.vhosts import (
    AccessRefused,
    Answer,
    BindCheck,
    Check,
    Durable,
    PermissionCache,
    QueueCounts,
    QueueHandle,
    QueueProperties,
    ResourceKind,
    Verb,
    VhostDefinitions,
    VirtualHost,
    server_name,
)

EXCHANGE, QUEUE = ResourceKind.EXCHANGE, ResourceKind.QUEUE
CONFIGURE, WRITE, READ = Verb.CONFIGURE, Verb.WRITE, Verb.READ
_Value = TypeVar("_Value")
_LINE_ENDS = {ord("\r"): None, ord("\n"): None}  # left out of names, as RabbitMQ does


class TopologyChannel(Protocol):
    """What topology methods need of their channel."""

    services: Services
    vhost: VirtualHost
    permissions: PermissionCache
    closing: bool
    last_queue: str

    @property
    def connection(self) -> object:
        """Its connection."""

    def hold_cancels(self) -> None:
        """Consumers of the channel that end from here on are told so behind the next reply."""

    def reply(
        self, durable: Awaitable[object] | None, nowait: bool, kind: type[Any], **values: Any
    ) -> None:
        """Answer when the change is durable."""

    def when(self, answer: Answer[_Value], then: Callable[[_Value], None], method: Any) -> None:
        """Call `then` with an answer, at once if it is there; else read no further commands until it is."""

    def again_behind(self, done: Awaitable[object], method: Any) -> None:
        """Read no further commands until something is done, then carry out a method once more."""


def queue_name(channel: TopologyChannel, name: str) -> str:
    """The queue meant: an empty name is the one last declared on the channel.

    Raises:
        SoftError: 404, none was.
    """
    name = name.translate(_LINE_ENDS)
    if name:
        return name
    if not channel.last_queue:
        raise SoftError(NOT_FOUND, "no previously declared queue")
    return channel.last_queue


def allowed(channel: TopologyChannel, check: Check | None = None) -> VhostDefinitions:
    """The definitions for a command that its client may give: see `VhostDefinitions.provided`.

    Args:
        check: None: the command comes with a `BindCheck`.
    """

    def checked() -> None:
        if channel.closing:  # whoever has its user's name since has other connections
            raise AccessRefused("the channel is closed")
        if check is not None:
            check()

    return channel.vhost.definitions.provided(checked)


def with_readable(
    channel: TopologyChannel, name: str, use: Callable[[QueueHandle], None], method: Any
) -> None:
    """Call `use` with a queue that the client may read; see `when`.

    Who may not is not told whether it is there.
    """

    def again(_: QueueHandle) -> None:  # another node may lead meanwhile
        with_readable(channel, name, use, method)

    may_read = partial(channel.permissions.authorize, QUEUE, name, READ)
    found = allowed(channel, may_read).queue(name, channel.connection)
    if isinstance(found, Future):
        channel.when(found, again, method)
    else:
        use(found)


def exchange_declare(channel: TopologyChannel, method: Any) -> None:
    """Declare an exchange, or ask whether there is one."""
    name = method.exchange.translate(_LINE_ENDS)
    if method.passive:
        if not name:
            raise DefaultExchangeProtected(channel.vhost.name)
        may_see = partial(channel.permissions.authorize_any, EXCHANGE, name)
        done = allowed(channel, may_see).exchange_declared(name)
    else:
        may_declare = partial(_authorize_exchange, channel, name, method.arguments)
        definitions = allowed(channel, may_declare)
        if (departed := definitions.wait_for_free("exchange", name)) is not None:
            channel.again_behind(departed, method)
            return
        exchange = Exchange(
            name,
            method.exchange_type,
            method.durable,
            method.auto_delete,
            method.internal,
            method.arguments,
        )
        done = definitions.declare_exchange(exchange)
    _reply(channel, method, done, commands.Exchange.DeclareOk)


def exchange_delete(channel: TopologyChannel, method: Any) -> None:
    """Delete an exchange."""
    name = method.exchange.translate(_LINE_ENDS)
    may_delete = partial(channel.permissions.authorize, EXCHANGE, name, CONFIGURE)
    done = allowed(channel, may_delete).delete_exchange(name, if_unused=method.if_unused)
    _reply(channel, method, done, commands.Exchange.DeleteOk)


def exchange_bind(channel: TopologyChannel, method: Any) -> None:
    """Bind an exchange to an exchange."""
    done = allowed(channel).bind(*_exchange_binding(channel, method))
    _reply(channel, method, done, commands.Exchange.BindOk)


def exchange_unbind(channel: TopologyChannel, method: Any) -> None:
    """Remove a binding between exchanges."""
    done = allowed(channel).unbind(*_exchange_binding(channel, method))
    _reply(channel, method, done, commands.Exchange.UnbindOk)


def queue_declare(channel: TopologyChannel, method: Any) -> None:
    """Declare a queue, or ask for its counts."""
    if method.queue == PSEUDO_QUEUE or method.queue.encode().startswith(ADDRESS_PREFIX):
        _reply_queue(channel, method)
        return
    if method.passive:
        name = queue_name(channel, method.queue)
        may_see = partial(channel.permissions.authorize_any, QUEUE, name)
        counts = allowed(channel, may_see).queue_declared(name, channel.connection)
    else:
        name = method.queue.translate(_LINE_ENDS) or server_name(method.arguments)
        may_declare = partial(_authorize_queue, channel, name, method.arguments)
        definitions = allowed(channel, may_declare)
        if (departed := definitions.wait_for_free("queue", name)) is not None:
            channel.again_behind(departed, method)
            return
        durable = method.durable and not method.exclusive  # which ends with its connection
        properties = QueueProperties(
            name, durable, method.exclusive, method.auto_delete, method.arguments
        )
        is_ours = not method.queue
        counts = definitions.declare_queue_of(properties, channel.connection, server_named=is_ours)

    channel.when(counts, partial(_declared, channel, method, name), method)


def _declared(channel: TopologyChannel, method: Any, name: str, counts: QueueCounts) -> None:
    channel.last_queue = name
    said = {"queue": name, "message_count": counts.ready, "consumer_count": counts.consumers}
    channel.reply(None, method.nowait, commands.Queue.DeclareOk, **said)


def _reply_queue(channel: TopologyChannel, method: Any) -> None:
    # Whoever is to reply may ask whether somebody waits for it still.
    name = method.queue

    def asked(is_open: bool) -> None:
        if not is_open:
            raise SoftError(NOT_FOUND, f"no queue '{name}' in vhost '{channel.vhost.name}'")
        channel.reply(None, method.nowait, commands.Queue.DeclareOk, queue=name, consumer_count=1)

    if name == PSEUDO_QUEUE:
        asked(True)
    else:
        channel.when(channel.services.replies.asked(name.encode()), asked, method)


def queue_bind(channel: TopologyChannel, method: Any) -> None:
    """Bind a queue to an exchange."""
    done = allowed(channel).bind(*_queue_binding(channel, method))
    _reply(channel, method, done, commands.Queue.BindOk)


def queue_unbind(channel: TopologyChannel, method: Any) -> None:
    """Remove a binding of a queue; one that is not there is as good as removed."""
    done = allowed(channel).unbind(*_queue_binding(channel, method))
    _reply(channel, method, done, commands.Queue.UnbindOk)


def queue_purge(channel: TopologyChannel, method: Any) -> None:
    """Drop all messages that are ready."""
    name = queue_name(channel, method.queue)
    with_readable(channel, name, partial(_purge, channel, method), method)


def _purge(channel: TopologyChannel, method: Any, queue: QueueHandle) -> None:
    if queue.is_stream:
        raise HardError(NOT_IMPLEMENTED, f"purge of stream '{queue.name}'")
    _when_counted(channel, method, queue.purge(), commands.Queue.PurgeOk)


def queue_delete(channel: TopologyChannel, method: Any) -> None:
    """Delete a queue; one that is not there is as good as deleted."""
    name = queue_name(channel, method.queue)
    may_delete = partial(channel.permissions.authorize, QUEUE, name, CONFIGURE)
    definitions = allowed(channel, may_delete)
    if method.if_unused and (back := definitions.until_consumers_back()) is not None:
        channel.again_behind(back, method)
        return
    conditions = {"if_unused": method.if_unused, "if_empty": method.if_empty}
    channel.hold_cancels()
    count = definitions.delete_queue_of(name, channel.connection, **conditions)
    _when_counted(channel, method, count, commands.Queue.DeleteOk)


def _reply(channel: TopologyChannel, method: Any, done: Durable, kind: type[Any]) -> None:
    def reply(_: int) -> None:
        channel.reply(None, getattr(method, "nowait", False), kind)  # queue.unbind has none

    channel.when(0 if done is None else done, reply, method)


def _when_counted(
    channel: TopologyChannel, method: Any, count: Answer[int], kind: type[Any]
) -> None:
    channel.when(
        count,
        lambda messages: channel.reply(None, method.nowait, kind, message_count=messages),
        method,
    )


def _exchange_binding(channel: TopologyChannel, method: Any) -> tuple[Binding, BindCheck]:
    ends = method.source, method.destination
    binding = Binding(*ends, "exchange", method.routing_key, method.arguments)
    return binding, partial(_authorize_binding, channel, EXCHANGE)


def _queue_binding(channel: TopologyChannel, method: Any) -> tuple[Binding, BindCheck]:
    name = queue_name(channel, method.queue)
    if name.startswith(PSEUDO_QUEUE):
        reason = f"cannot bind reply queue '{name}' in vhost '{channel.vhost.name}'"
        raise SoftError(ACCESS_REFUSED, reason)
    # The specification's rule for a key and a queue that are both left empty.
    key = method.routing_key or ("" if method.queue else name)
    binding = Binding(method.exchange, name, "queue", key, method.arguments)
    return binding, partial(_authorize_binding, channel, QUEUE)


def _authorize_binding(channel: TopologyChannel, kind: ResourceKind, binding: Binding) -> None:
    if kind is QUEUE:
        channel.vhost.definitions.check_access(binding.destination, channel.connection)
    channel.permissions.authorize(kind, binding.destination, WRITE)
    channel.permissions.authorize(EXCHANGE, binding.source, READ)
    if channel.vhost.routing.routes_by_topic(binding.source):
        channel.permissions.authorize_topic(binding.source, READ, binding.routing_key)


def _authorize_exchange(
    channel: TopologyChannel, name: str, arguments: Mapping[str, object]
) -> None:
    channel.permissions.authorize(EXCHANGE, name, CONFIGURE)
    for argument in ("alternate-exchange", "x-alternate-exchange"):
        alternate = arguments.get(argument)
        if isinstance(alternate, str):
            channel.permissions.authorize(EXCHANGE, name, READ)
            channel.permissions.authorize(EXCHANGE, alternate, WRITE)


def _authorize_queue(channel: TopologyChannel, name: str, arguments: Mapping[str, object]) -> None:
    channel.permissions.authorize(QUEUE, name, CONFIGURE)
    exchange = arguments.get("x-dead-letter-exchange")
    if isinstance(exchange, str):
        channel.permissions.authorize(QUEUE, name, READ)
        channel.permissions.authorize(EXCHANGE, exchange, WRITE)


HANDLERS = {
    commands.Exchange.Declare: exchange_declare,
    commands.Exchange.Delete: exchange_delete,
    commands.Exchange.Bind: exchange_bind,
    commands.Exchange.Unbind: exchange_unbind,
    commands.Queue.Declare: queue_declare,
    commands.Queue.Bind: queue_bind,
    commands.Queue.Unbind: queue_unbind,
    commands.Queue.Purge: queue_purge,
    commands.Queue.Delete: queue_delete,
}
