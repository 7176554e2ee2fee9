"""A paused queue hands out nothing, to nobody, also after a restart; everything else goes on."""

from pathlib import Path

import pytest
from support.queue_samples import (
    Node,
    Taker,
    bodies,
    declare_queue,
    fill,
    give_back,
    got,
    numbered,
    records,
    running_node,
)

from routelog.vhosts import ConsumerGroup, GroupOptions, PublishRefused, Queue, QueueProperties

STREAM = {"x-queue-type": "stream", "x-durability": "memory"}  # visible at once


async def paused(node: Node, **arguments: object) -> Queue:
    hyphened = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
    properties = QueueProperties("q", durable=True, arguments=hyphened)
    queue, declared = declare_queue(node.vhost, properties, None)
    assert declared is not None
    await declared
    await node.vhost.pause_queue(queue, paused=True)
    return queue


async def test_consumers_get_nothing_until_it_is_resumed(node: Node) -> None:
    queue = await paused(node)
    taker = Taker()
    queue.add_consumer(taker)
    fill(queue, 3)
    node.turns.run()
    queue.serve_due()
    assert (taker.bodies(), got(queue), queue.ready) == ([], None, 3)
    await node.vhost.pause_queue(queue, paused=False)
    node.turns.run()
    assert taker.bodies() == numbered(0, 3)


async def test_an_operator_still_takes_messages_and_purges(node: Node) -> None:
    queue = await paused(node)
    fill(queue, 3)
    delivery = queue.get(while_paused=True)
    assert not hasattr(delivery, "done")
    assert delivery is not None
    assert bodies(delivery) == ["m0"]
    assert queue.purge() == 2


async def test_what_is_unsettled_is_settled_and_comes_back_meanwhile(node: Node) -> None:
    queue = await paused(node)
    await node.vhost.pause_queue(queue, paused=False)
    fill(queue, 2)
    first, second = got(queue), got(queue)
    assert first is not None
    assert second is not None
    await node.vhost.pause_queue(queue, paused=True)
    first.partition.settle(first.offset, first.offset + 1)
    give_back(second)
    node.turns.run()
    assert (queue.ready, queue.unacked, got(queue)) == (1, 0, None)


async def test_messages_expire_meanwhile(node: Node) -> None:
    queue = await paused(node, message_ttl=1_000)
    queue.add_consumer(Taker())
    queue.publish(records("old", time=node.turns.clock.now()), waited=False)
    node.turns.run()
    assert queue.ready == 1
    node.turns.pass_seconds(2)
    assert queue.ready == 0


async def test_credit_of_its_consumers_is_no_room(node: Node) -> None:
    queue = await paused(node, max_length=2, overflow="reject-publish")
    queue.add_consumer(Taker())
    with pytest.raises(PublishRefused):
        queue.publish(records(*numbered(0, 5)), waited=False)
    assert queue.ready == 2


async def test_groups_and_readers_of_a_stream_get_nothing_either(node: Node) -> None:
    properties = QueueProperties("q", durable=True, arguments=STREAM)
    queue, declared = declare_queue(node.vhost, properties, None)
    assert declared is not None
    await declared
    takers = [Taker(10) for _ in range(3)]
    queue.add_reader(takers[0], "first", 0)
    queue.join_group(await group(node, queue, "before"), takers[1])
    await node.vhost.pause_queue(queue, paused=True)
    queue.join_group(await group(node, queue, "after"), takers[2])
    fill(queue, 2)
    node.turns.run()
    assert [taker.bodies() for taker in takers] == [[], [], []]
    await node.vhost.pause_queue(queue, paused=False)
    node.turns.run()
    assert [taker.bodies() for taker in takers] == [numbered(0, 2)] * 3


async def group(node: Node, queue: Queue, name: str) -> ConsumerGroup:
    found, made = node.vhost.hosted.groups.join(queue, GroupOptions(name), "first", 0)
    if made is not None:
        await made
    return found


async def test_publishers_do_not_wait_for_consumers_that_get_nothing(node: Node) -> None:
    queue = await paused(node)
    opened: list[bool] = []
    await node.vhost.pause_queue(queue, paused=False)
    queue.on_caught_up = lambda: opened.append(True)
    await node.vhost.pause_queue(queue, paused=True)
    assert (opened, queue.is_behind) == ([True], False)


@pytest.mark.parametrize("kind", ["classic", "stream"])
async def test_a_restart_and_a_change_of_arguments_leave_it_paused(
    tmp_path: Path, kind: str
) -> None:
    async with running_node(tmp_path) as node:
        queue = await paused(node, queue_type=kind)
        fill(queue, 2)
        await node.vhost.change_queue(queue, {"x-max-length-bytes": 10_000_000})
        assert queue.paused
    async with running_node(tmp_path) as node:
        queue = node.vhost.queues["q"]
        assert queue.paused
        await node.vhost.pause_queue(queue, paused=False)
    async with running_node(tmp_path) as node:
        assert not node.vhost.queues["q"].paused
        assert node.vhost.queues["q"].ready == 2
