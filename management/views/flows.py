"""Flows: which exchange, queue or channel messages of a single object come from and go to; no list has them.

Channels and queues count what they have of each exchange, and channels what they took from each queue. The
other ends of these flows are looked for, in turns.
"""

from collections.abc import Iterator
from typing import Any

from routelog.log_backend import Lane, in_turns
from routelog.management.calls.answer import Answer, Listing, Row
from routelog.management.calls.broker_side import BrokerSide
from routelog.management.calls.call import Call
from routelog.management.calls.listing import SLICE_ITEMS, slices
from routelog.management.calls.other_nodes import other_nodes
from routelog.management.sampling.statistics import Statistics
from routelog.management.shapes.consumer import QueueName
from routelog.management.shapes.flow import (
    ArrivalFlow,
    ConsumerFlow,
    ExchangeFlow,
    ExchangeName,
    PublisherFlow,
    Publishes,
    QueueFlow,
)
from routelog.management.shapes.statistics import Deliveries
from routelog.management.views.bindings import exchange_name
from routelog.management.views.consumers import channel_details
from routelog.vhosts import ChannelSnapshot, MessageCounters, Queue, VirtualHost

DELIVERIES_OF_QUEUE = "/inner/deliveries/{vhost}/{name}"
PUBLISHES_TO_EXCHANGE = "/inner/publishes/{vhost}/{name}"


async def flows_of_queue(call: Call, queue: Queue) -> Row:
    """What a queue has of each exchange, and each channel of the queue."""
    statistics, counters = call.statistics(), queue.counters
    deliveries: list[ConsumerFlow] = []
    if any((counters.deliver, counters.deliver_no_ack, counters.get, counters.get_no_ack)):
        deliveries = await _deliveries(call, queue.name)
        deliveries += await (await other_nodes(call, DELIVERIES_OF_QUEUE)).rows(ConsumerFlow)
    incoming = await _of_exchanges(call.vhost, counters, statistics)
    return {"incoming": incoming, "deliveries": deliveries}


async def deliveries_here(call: Call) -> Answer:
    """Which channels of this node a queue feeds: for the one that leads."""
    return Listing(await _deliveries(call, call.path("name")), lambda row: row)


async def _deliveries(call: Call, name: str) -> list[ConsumerFlow]:
    statistics, vhost = call.statistics(), call.vhost.name
    found: list[ConsumerFlow] = []
    async for connection, channel in in_turns(_channels(call.broker, vhost), Lane.OPERATORS):
        for of_queue, flow in list(channel.counters.from_queues.items()):
            queue = of_queue.owner
            if queue is not None and queue.name == name and queue.vhost == vhost:
                details = channel_details(call.broker, connection, channel.number)
                found.append(ConsumerFlow(details, Deliveries(**statistics.flow(flow))))
    return found


async def flows_of_channel(call: Call, vhost: VirtualHost, counters: MessageCounters) -> Row:
    """What a channel published to each exchange, and took from each queue."""
    statistics = call.statistics()
    deliveries: list[QueueFlow] = []
    async for of_queue, flow in in_turns(list(counters.from_queues.items()), Lane.OPERATORS):
        queue = of_queue.owner
        if queue is not None and not queue.deleted:
            named = QueueName(queue.name, queue.vhost)
            deliveries.append(QueueFlow(named, Deliveries(**statistics.flow(flow))))
    publishes = await _of_exchanges(vhost, counters, statistics)
    return {"publishes": publishes, "deliveries": deliveries}


async def flows_of_exchange(call: Call, name: str) -> Row:
    """What each channel published to an exchange, and each queue has of it."""
    statistics, key = call.statistics(), name.encode()
    incoming = await _publishes(call, name)
    incoming += await (await other_nodes(call, PUBLISHES_TO_EXCHANGE)).rows(PublisherFlow)
    outgoing: list[ArrivalFlow] = []
    vhost = call.vhost
    fed: list[Queue] = []
    queues = list(vhost.queues.values())
    async for some in in_turns(slices(queues, SLICE_ITEMS), Lane.OPERATORS):
        fed += [queue for queue in some if key in queue.counters.from_exchanges]
    async for queue in in_turns(fed, Lane.OPERATORS):
        stats = Publishes(**statistics.flow(queue.counters.from_exchanges[key]))
        outgoing.append(ArrivalFlow(QueueName(queue.name, queue.vhost), stats))
    return {"incoming": incoming, "outgoing": outgoing}


async def publishes_here(call: Call) -> Answer:
    """Which channels of this node publish to an exchange: for the one that leads."""
    return Listing(await _publishes(call, exchange_name(call.path("name"))), lambda row: row)


async def _publishes(call: Call, name: str) -> list[PublisherFlow]:
    statistics, key = call.statistics(), name.encode()
    found: list[PublisherFlow] = []
    vhost = call.vhost.name
    async for connection, channel in in_turns(_channels(call.broker, vhost), Lane.OPERATORS):
        flow = channel.counters.from_exchanges.get(key)
        if flow is not None:
            details = channel_details(call.broker, connection, channel.number)
            found.append(PublisherFlow(details, Publishes(**statistics.flow(flow))))
    return found


async def _of_exchanges(
    vhost: VirtualHost, counters: MessageCounters, statistics: Statistics
) -> list[ExchangeFlow]:
    rows: list[ExchangeFlow] = []
    async for key, flow in in_turns(list(counters.from_exchanges.items()), Lane.OPERATORS):
        name = key.decode()
        if vhost.routing.has_exchange(name):
            stats = Publishes(**statistics.flow(flow))
            rows.append(ExchangeFlow(ExchangeName(name, vhost.name), stats))
    return rows


def _channels(broker: BrokerSide, vhost: str) -> Iterator[tuple[Any, ChannelSnapshot]]:
    for connection in broker.connections.connections():
        if connection.vhost.name == vhost:
            for channel in broker.connections.channels(connection):
                yield connection, channel
