"""Who has the unacknowledged messages of a queue: the channels know, the queue does not."""

from bisect import bisect_right, insort
from collections.abc import Iterator
from typing import NamedTuple

from routelog.amqp_front.connections.channel import Channel
from routelog.amqp_front.connections.connection import Connection
from routelog.amqp_front.consuming.channel_consumer import ChannelConsumer
from routelog.amqp_front.consuming.unacked import UnackedRun
from routelog.amqp_front.server.connection_snapshot import OperatorView
from routelog.log_backend import Lane, in_turns
from routelog.vhosts import MessageHolder, Queue


class _Held(NamedTuple):
    partition: int
    first: int
    run: UnackedRun
    connection: str
    channel: int


class MessageHolders:
    """Who has which messages of one queue, at the time of the look."""

    def __init__(self) -> None:
        self._held: list[_Held] = []

    def add(self, partition: int, run: UnackedRun, connection: str, channel: int) -> None:
        """Note what a channel has."""
        insort(self._held, _Held(partition, run.offset, run, connection, channel), key=_place)

    def of(self, partition: int, offset: int) -> MessageHolder | None:
        """Who has a message; None: nobody."""
        at = bisect_right(self._held, (partition, offset), key=_place) - 1
        if at < 0:
            return None
        where, first, run, connection, channel = self._held[at]
        if where != partition or offset >= run.end_offset:
            return None
        tag, seconds = "", 0.0
        if isinstance(run.consumer, ChannelConsumer):
            tag, lease = run.consumer.tag, run.consumer.lease
            if lease is not None:
                seconds = lease.held_seconds(run.first_tag + offset - first)
        return MessageHolder(tag, connection, channel, seconds)


async def message_holders(queue: Queue, connections: OperatorView) -> MessageHolders:
    """Look through the channels of the queue's vhost, in turns of the event loop."""
    holders = MessageHolders()
    if not queue.unacked:
        return holders
    partitions = {id(each): at for at, each in enumerate(queue.sources())}
    async for connection, channel, run in in_turns(
        _runs(connections.connections(), queue.vhost), Lane.OPERATORS
    ):
        partition = partitions.get(id(run.partition))
        if partition is not None:
            holders.add(partition, run, connections.name(connection), channel.number)
    return holders


def _runs(
    connections: list[Connection], vhost: str
) -> Iterator[tuple[Connection, Channel, UnackedRun]]:
    for connection in connections:
        if connection.vhost.name == vhost:
            for channel in list(connection.channels):
                for run in list(channel.consumption.unacked):
                    yield connection, channel, run


def _place(held: _Held) -> tuple[int, int]:
    return held.partition, held.first
