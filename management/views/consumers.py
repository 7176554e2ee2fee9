"""Consumers: in all vhosts, in one, or of one queue."""

from collections.abc import Iterator
from typing import Any

from routelog.log_backend import Lane, in_turns
from routelog.management.calls.answer import Answer, Listing
from routelog.management.calls.broker_side import BrokerSide
from routelog.management.calls.call import Call
from routelog.management.calls.operation import lists
from routelog.management.calls.other_nodes import everywhere, other_nodes
from routelog.management.shapes.consumer import ChannelDetails, ConsumerRow, QueueName
from routelog.vhosts import Queue

CONSUMERS_OF_QUEUE = "/inner/consumers/{vhost}/{name}"


@lists(ConsumerRow)
def list_consumers(call: Call) -> Answer:
    """The consumers in the vhosts that the caller sees."""
    found = Listing(_all(call.broker), lambda item: _seen(call, item, ""))
    return everywhere(call, "/consumers", found)


@lists(ConsumerRow)
def list_consumers_of_vhost(call: Call) -> Answer:
    """The consumers in a vhost."""
    found = Listing(_all(call.broker), lambda item: _seen(call, item, call.vhost.name))
    return everywhere(call, "/consumers/{vhost}", found)


async def consumers_here(call: Call) -> Answer:
    """The consumers of a queue that this node has: for the one that leads."""
    rows = await _rows_of_queue(call.broker, call.vhost.name, call.path("name"))
    return Listing(rows, lambda row: row)


async def consumer_rows_of_queue(call: Call, queue: Queue) -> list[ConsumerRow]:
    """The consumers of a queue, which the path of the call names."""
    if not queue.consumer_count:
        return []
    rows = await _rows_of_queue(call.broker, queue.vhost, queue.name)
    return rows + await (await other_nodes(call, CONSUMERS_OF_QUEUE)).rows(ConsumerRow)


async def _rows_of_queue(broker: BrokerSide, vhost: str, queue: str) -> list[ConsumerRow]:
    rows: list[ConsumerRow] = []
    async for connection in in_turns(broker.connections.connections(), Lane.OPERATORS):
        if connection.vhost.name == vhost:
            for consumer in broker.connections.consumers(connection):
                if consumer.queue == queue:
                    rows.append(_row(broker, connection, consumer))
    return rows


def consumer_rows_of_channel(broker: BrokerSide, connection: Any, number: int) -> list[ConsumerRow]:
    """The consumers of a channel."""
    consumers = broker.connections.consumers(connection)
    return [_row(broker, connection, each) for each in consumers if each.channel == number]


def _all(broker: BrokerSide) -> Iterator[tuple[Any, Any]]:
    for connection in broker.connections.connections():
        for consumer in broker.connections.consumers(connection):
            yield connection, consumer


def _seen(call: Call, item: tuple[Any, Any], vhost: str) -> ConsumerRow | None:
    connection, consumer = item
    name = connection.vhost.name
    if name == vhost or (not vhost and call.caller.sees(name)):
        return _row(call.broker, connection, consumer)
    return None


def _row(broker: BrokerSide, connection: Any, consumer: Any) -> ConsumerRow:
    arguments = {"x-priority": consumer.priority} if consumer.priority else {}
    if consumer.group:
        arguments["x-group"] = consumer.group
    return ConsumerRow(
        consumer_tag=consumer.tag,
        queue=QueueName(consumer.queue, connection.vhost.name),
        ack_required=consumer.ack_required,
        exclusive=consumer.exclusive,
        prefetch_count=consumer.prefetch,
        active=consumer.activity != "waiting",
        activity_status=consumer.activity,
        arguments=arguments,
        messages_unacknowledged=consumer.unacknowledged,
        messages_timed_out=consumer.timed_out,
        user_who_performed_action=connection.user,
        channel_details=channel_details(broker, connection, consumer.channel),
    )


def channel_details(broker: BrokerSide, connection: Any, number: int) -> ChannelDetails:
    """Which channel it is."""
    values = broker.connections.describe(connection)
    return ChannelDetails(
        name=f"{values.name} ({number})",
        number=number,
        user=connection.user,
        connection_name=values.name,
        node=broker.node.name,
        peer_host=values.peer_host,
        peer_port=values.peer_port,
    )
