"""A consumer that takes all there is: of a queue, of a group, or of a log."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from crash.kills.frame_stream import Delivered, FrameStream
from crash.kills.load_queue import LoadQueue
from crash.kills.numbered_message import NumberedMessages
from pamqp import commands

from routelog.benchmarks.traffic.connection import Connection
from routelog.benchmarks.traffic.frames import ack_frame

Records = list[tuple[int, int]]  # offset, or -1 in a queue; sequence number
Until = Callable[[Sequence[tuple[int, int]]], bool]


def drain(
    connection: Connection,
    messages: NumberedMessages,
    arguments: Mapping[str, object],
    until: Until,
) -> Records:
    """Consume until what was read is all, and acknowledge it.

    Args:
        arguments: of basic.consume.
    """
    consume = commands.Basic.Consume(
        queue=messages.queue, consumer_tag="drain", arguments=dict(arguments)
    )
    connection.call(consume, commands.Basic.ConsumeOk)
    stream = FrameStream()
    records: Records = []
    while not until(records):
        tag = 0
        for event in stream.feed(connection.receive()):
            assert isinstance(event, Delivered)
            records.append((event.offset, messages.read(event.body)))
            tag = event.tag
        if tag:
            connection.send(ack_frame(tag, multiple=True))
    cancel = commands.Basic.Cancel(consumer_tag="drain")
    connection.call(cancel, commands.Basic.CancelOk)
    return records


def until_empty(connection: Connection, queue: LoadQueue) -> Until:
    """Until as many messages came as the queue has, while nobody else consumes or publishes."""
    count = message_count(connection, queue.name)
    return lambda records: len(records) >= count


def until_last(queue: LoadQueue) -> Until:
    """Until the last message came that was published."""
    last = queue.ledger.published - 1
    return lambda records: bool(records) and records[-1][1] == last


def message_count(connection: Connection, queue: str) -> int:
    """Messages that are ready."""
    declare = commands.Queue.Declare(queue=queue, passive=True)
    return connection.call(declare, commands.Queue.DeclareOk).message_count or 0
