"""Connections and channels: to look at, and to close."""

from collections.abc import Iterator
from typing import Any

import msgspec

from routelog.log_backend import Lane, in_turns
from routelog.management.calls.answer import Answer, Empty, Listing, Value
from routelog.management.calls.broker_side import BrokerSide
from routelog.management.calls.call import STATISTICS, Call
from routelog.management.calls.caller import Need
from routelog.management.calls.failures import Refused, not_authorised, not_found
from routelog.management.calls.operation import answers, changes, lists
from routelog.management.calls.other_nodes import elsewhere, everywhere, other_nodes
from routelog.management.sampling.statistics import Statistics
from routelog.management.shapes.connection import (
    ChannelRow,
    ConnectionDetails,
    ConnectionRow,
    OneChannel,
)
from routelog.management.views.consumers import consumer_rows_of_channel
from routelog.management.views.flows import flows_of_channel

REASON = "Closed via management plugin"  # RabbitMQ's words

_CONNECTION = "/connections/{name}"
_REASONS = ("x-reason",)  # why a connection is closed


@lists(ConnectionRow, STATISTICS, has_pages=True)
def list_connections(call: Call) -> Answer:
    """The connections that the caller sees: his own, or all."""
    return everywhere(call, "/connections", _listing(call, _seen(call)))


@lists(ConnectionRow, STATISTICS)
def list_connections_of_vhost(call: Call) -> Answer:
    """The connections to a vhost."""
    path = "/vhosts/{vhost}/connections"
    return everywhere(call, path, _listing(call, _seen_in_vhost(call)))


@lists(ConnectionRow, STATISTICS, has_pages=True)
def list_connections_of_user(call: Call) -> Answer:
    """The connections of a user."""
    name = call.path("name")
    found = _listing(call, (each for each in _seen(call) if each.user == name))
    return everywhere(call, "/connections/username/{name}", found)


def _listing(call: Call, connections: Iterator[Any]) -> Listing:
    statistics = call.statistics()
    return Listing(
        connections,
        lambda connection: connection_row(call.broker, connection, statistics),
        call.broker.connections.name,
    )


def connection_row(broker: BrokerSide, connection: Any, statistics: Statistics) -> ConnectionRow:
    """A connection as RabbitMQ shows it."""
    values = broker.connections.describe(connection)
    return ConnectionRow(
        name=values.name,
        user=values.user,
        vhost=values.vhost,
        user_provided_name=values.client_properties.get("connection_name"),
        peer_host=values.peer_host,
        peer_port=values.peer_port,
        host=values.host,
        port=values.port,
        state=values.state,
        blocked_by=list(values.blocked_by),
        channels=values.channels,
        channel_max=values.channel_max,
        frame_max=values.frame_max,
        timeout=values.heartbeat,
        auth_mechanism=values.mechanism,
        connected_at=values.connected_at,
        client_properties=values.client_properties,
        protocol="AMQP 0-9-1",
        type="network",
        ssl=values.is_tls,
        **values.tls,
        node=broker.node.name,
        **statistics.traffic(values.traffic),
        send_pend=values.unsent_bytes,
        user_who_performed_action=values.user,
    )


@answers(ConnectionRow, query=STATISTICS)
async def get_connection(call: Call) -> Answer:
    """One connection."""
    connection = await _connection(call)
    if connection is None:
        return await elsewhere(call, _CONNECTION, _missing(call))
    return Value(connection_row(call.broker, connection, call.statistics()))


@changes()
async def delete_connection(call: Call) -> Answer:
    """Close a connection; the header X-Reason says why."""
    connection = await _connection(call)
    if connection is None:
        return await elsewhere(call, _CONNECTION, _missing(call), "DELETE", _REASONS)
    _check_closes(call, connection)
    call.broker.connections.close(connection, call.header("x-reason") or REASON)
    return Empty()


@changes()
async def delete_connections_of_user(call: Call) -> Answer:
    """Close all connections of a user."""
    name, reason = call.path("name"), call.header("x-reason") or REASON
    for connection in call.broker.connections.connections():
        if connection.user == name:
            _check_closes(call, connection)
            call.broker.connections.close(connection, reason)
    path = "/connections/username/{name}"
    (await other_nodes(call, path, "DELETE", _REASONS)).check_all()
    return Empty()


@lists(ChannelRow, STATISTICS, has_pages=True)
def list_channels(call: Call) -> Answer:
    """The channels of the connections that the caller sees."""
    return everywhere(call, "/channels", _channels(call, _seen(call)))


@lists(ChannelRow, STATISTICS)
def list_channels_of_vhost(call: Call) -> Answer:
    """The channels of the connections to a vhost."""
    path = "/vhosts/{vhost}/channels"
    return everywhere(call, path, _channels(call, _seen_in_vhost(call)))


@lists(ChannelRow, STATISTICS)
async def list_channels_of_connection(call: Call) -> Answer:
    """The channels of a connection."""
    connection = await _connection(call)
    if connection is None:
        await elsewhere(call, _CONNECTION, _missing(call))
        return everywhere(call, f"{_CONNECTION}/channels", _channels(call, iter(())))
    return _channels(call, iter([connection]))


@answers(OneChannel, query=STATISTICS)
async def get_channel(call: Call) -> Answer:
    """One channel."""
    name = call.path("channel")
    async for connection in in_turns(call.broker.connections.connections(), Lane.OPERATORS):
        prefix = call.broker.connections.name(connection)
        if name.startswith(prefix) and _is_seen(call, connection):
            for channel in call.broker.connections.channels(connection):
                if name == f"{prefix} ({channel.number})":
                    row = channel_row(call.broker, (connection, channel), call.statistics())
                    consumers = consumer_rows_of_channel(call.broker, connection, channel.number)
                    flows = await flows_of_channel(call, connection.vhost, channel.counters)
                    said = msgspec.structs.asdict(row)
                    return Value(OneChannel(**said, consumer_details=consumers, **flows))
    return await elsewhere(call, "/channels/{channel}", not_found("channel", name))


def _channels(call: Call, connections: Iterator[Any]) -> Listing:
    statistics = call.statistics()
    return Listing(
        (
            (connection, channel)
            for connection in connections
            for channel in call.broker.connections.channels(connection)
        ),
        lambda item: channel_row(call.broker, item, statistics),
        lambda item: f"{call.broker.connections.name(item[0])} ({item[1].number})",
    )


def channel_row(broker: BrokerSide, item: tuple[Any, Any], statistics: Statistics) -> ChannelRow:
    """A channel as RabbitMQ shows it."""
    connection, channel = item
    values = broker.connections.describe(connection)
    return ChannelRow(
        name=f"{values.name} ({channel.number})",
        number=channel.number,
        user=values.user,
        vhost=values.vhost,
        node=broker.node.name,
        state="running" if channel.is_flowing else "flow",
        confirm=channel.confirm,
        transactional=channel.transactional,
        consumer_count=channel.consumers,
        messages_unacknowledged=channel.unacknowledged,
        messages_unconfirmed=channel.unconfirmed,
        messages_uncommitted=channel.uncommitted_messages,
        acks_uncommitted=channel.uncommitted_acks,
        prefetch_count=channel.prefetch,
        global_prefetch_count=channel.channel_prefetch,
        connection_details=ConnectionDetails(values.name, values.peer_host, values.peer_port),
        **statistics.messages(channel.counters),
        **statistics.idle_since(channel.counters, broker.node.started_at),
        user_who_performed_action=values.user,
    )


async def _connection(call: Call) -> Any:
    # None: it is not here. In turns: there may be thousands, and a page asks every few seconds.
    name = call.path("name")
    async for connection in in_turns(call.broker.connections.connections(), Lane.OPERATORS):
        if call.broker.connections.name(connection) == name:
            if not _is_seen(call, connection):
                raise not_authorised("User not authorised to access this connection")
            return connection
    return None


def _missing(call: Call) -> Refused:
    return not_found("connection", call.path("name"))


def _check_closes(call: Call, connection: Any) -> None:
    # As in RabbitMQ: who may look at the connections of others may not end them.
    if not (call.caller.has(Need.ADMINISTRATOR) or connection.user == call.caller.name):
        raise not_authorised("User not authorised to access object")


def _seen(call: Call) -> Iterator[Any]:
    return (each for each in call.broker.connections.connections() if _is_seen(call, each))


def _seen_in_vhost(call: Call) -> Iterator[Any]:
    return (each for each in _seen(call) if each.vhost.name == call.vhost.name)


def _is_seen(call: Call, connection: Any) -> bool:
    # As in RabbitMQ, everybody else has to do with his own connections only.
    return call.caller.has(Need.MONITORING) or connection.user == call.caller.name
