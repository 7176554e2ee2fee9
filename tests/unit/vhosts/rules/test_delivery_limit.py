"""How often a message may come back, by ranges."""

import pytest
from support.queue_samples import Node, bodies, declare_queue, fill, give_back, got, numbered

from routelog.vhosts import Queue, QueueProperties, ReturnReason
from routelog.vhosts.rules.delivery_limit import QUORUM_DEFAULT, delivery_limit


def declared(node: Node, name: str = "q", **arguments: object) -> Queue:
    hyphened = {key.replace("_", "-"): value for key, value in arguments.items()}
    return declare_queue(node.vhost, QueueProperties(name, arguments=hyphened), None)[0]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, None),
        ({"x-delivery-limit": 3}, 3),
        ({"x-delivery-limit": -1}, None),
        ({"x-queue-type": "quorum"}, QUORUM_DEFAULT),
        ({"x-queue-type": "quorum", "x-delivery-limit": 0}, 0),
        ({"x-queue-type": "quorum", "x-delivery-limit": -1}, None),
    ],
)
def test_arguments_say_how_often_a_message_comes_again(
    arguments: dict[str, object], expected: int | None
) -> None:
    assert delivery_limit(arguments) == expected


async def test_a_message_is_delivered_once_more_than_the_limit(node: Node) -> None:
    morgue = declared(node, "morgue")
    to_morgue = {"x_dead_letter_exchange": "", "x_dead_letter_routing_key": "morgue"}
    queue = declared(node, x_delivery_limit=2, **to_morgue)
    fill(queue, 1)
    for _ in range(3):
        delivery = got(queue)
        assert delivery is not None
        give_back(delivery)
    assert (queue.ready, queue.unacked) == (0, 0)
    node.turns.run()
    assert morgue.ready == 1


async def test_only_those_that_came_too_often_leave(node: Node) -> None:
    queue = declared(node, x_delivery_limit=1)
    fill(queue, 10, batch=10)
    partition = queue.partitions[0]
    delivery = queue._take(10)
    assert delivery is not None
    for first, end in ((2, 4), (6, 7)):  # these are given back and taken again
        partition.give_back(first, end, ReturnReason.RETURNED)
        again = queue._take(10)
        assert again is not None
        assert (again.offset, again.count) == (first, end - first)
    partition.give_back(0, 10, ReturnReason.FAILED)
    assert queue.unacked == 0
    assert list(partition.ready_ranges()) == [(0, 2), (4, 6), (7, 10)]
    left = []
    while (one := got(queue)) is not None:
        left += bodies(one)
    assert left == [f"m{n}" for n in (0, 1, 4, 5, 7, 8, 9)]


async def test_a_limit_of_nothing_lets_nothing_come_back(node: Node) -> None:
    queue = declared(node, x_delivery_limit=0)
    fill(queue, 3, batch=3)
    delivery = queue._take(2)
    assert delivery is not None
    give_back(delivery)
    assert queue.ready == 1


async def test_a_limit_that_comes_later_counts_what_was_before(node: Node) -> None:
    queue = declared(node)
    fill(queue, 1)
    for _ in range(4):
        delivery = got(queue)
        assert delivery is not None
        give_back(delivery)
    assert not queue.counts_deliveries
    queue.apply({"x-delivery-limit": 3})
    assert queue.counts_deliveries
    delivery = got(queue)
    assert delivery is not None
    give_back(delivery)
    assert queue.ready == 0


async def test_a_million_messages_come_back_at_once(node: Node) -> None:
    queue = declared(node, x_delivery_limit=5)
    fill(queue, 60_000, batch=60_000)
    delivery = queue.partitions[0].take(60_000, 1 << 30)
    assert delivery is not None
    give_back(delivery)
    assert queue.partitions[0].returned == [(0, 60_000)]
    assert numbered(0, 1) == ["m0"]
