"""One-shot shovels: what they move, and what no shovel of this broker can be."""

from __future__ import annotations

import pytest
from support.queue_samples import records
from unit.management.managed_node import ManagedNode

from routelog.management.calls.failures import Refused
from routelog.management.views import shovels
from routelog.management.views.messages import LIMIT_MAX
from routelog.vhosts import MoveMode

SHOVEL = {
    "src-protocol": "amqp091",
    "src-uri": "amqp://",
    "src-queue": "mine",
    "src-delete-after": "queue-length",
    "dest-uri": ["amqp:///%2F"],
    "dest-queue": "to",
}


async def test_all_messages_are_to_be_moved(node: ManagedNode) -> None:
    mine, _ = await node.queue("mine"), await node.queue("to")
    mine.partitions[0].log.append(records("a", "b", "c"))
    assert await node.ask(shovels.put_shovel, body={"value": SHOVEL}, name="s") == 201
    (order,) = node.messages.orders
    assert (order.mode, order.limit) == (MoveMode.MOVE, LIMIT_MAX)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"src-delete-after": "never"}, "messages are moved once"),
        ({"dest-protocol": "amqp10"}, '"dest-protocol" has to be "amqp091"'),
        ({"src-uri": "amqp://other"}, '"src-uri" has to be this broker'),
        ({"src-uri": ["amqp://", "amqp://"]}, '"src-uri" has to be this broker'),
        ({"src-uri": None}, '"src-uri" has to be this broker'),
        ({"dest-uri": "amqp:///else"}, "is of vhost 'else', not of '/'"),
        ({"src-queue": 7}, '"src-queue" has to be the name of a queue'),
        ({"dest-queue": 7}, '"dest-queue" has to be text'),
        ({"dest-queue": None}, 'expected "dest-queue", or "dest-exchange"'),
        ({"dest-exchange": "e"}, 'expected "dest-queue", or "dest-exchange"'),
        ({"dest-queue": "missing"}, "missing"),
    ],
)
async def test_what_it_cannot_be_is_refused_and_nothing_moves(
    node: ManagedNode, change: dict[str, object], reason: str
) -> None:
    mine, _ = await node.queue("mine"), await node.queue("to")
    mine.partitions[0].log.append(records("a"))
    with pytest.raises(Refused, match=reason):
        await node.ask(shovels.put_shovel, body={"value": {**SHOVEL, **change}}, name="s")
    assert not node.messages.orders


async def test_a_stream_keeps_its_messages(node: ManagedNode) -> None:
    await node.queue("mine", x_queue_type="stream")
    await node.queue("to")
    with pytest.raises(Refused, match="stream 'mine' keeps its messages"):
        await node.ask(shovels.put_shovel, body={"value": SHOVEL}, name="s")
