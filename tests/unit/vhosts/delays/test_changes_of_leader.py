"""Delayed messages when the leader changes from A to B and back, and B gave the same offsets to others."""

import asyncio
from pathlib import Path

import pytest
from support.queue_samples import Node, records
from support.waiting import until
from unit.vhosts.delays.test_held_messages import (
    BEGIN,
    bodies,
    held_of,
    later,
    message,
    pass_seconds,
    settled,
)
from unit.vhosts.replicated_nodes import ReplicatedNode, replicated_node, there_and_back

from routelog.exchanges import Exchange
from routelog.log_backend import ScheduledRecord


async def stored(node: Node) -> None:
    """Let time pass in which the schedule is written."""
    node.turns.pass_seconds(1)
    await asyncio.get_running_loop().run_in_executor(node.logs.schedules._thread, str)


async def declares(node: ReplicatedNode) -> None:
    await later(node)


async def test_a_leader_that_leads_again_delivers_what_was_confirmed_meanwhile(
    tmp_path: Path,
) -> None:
    async def cut_off(node: ReplicatedNode) -> None:
        held_of(node).publish(message(*range(60_000, 60_050)), True)
        await stored(node)

    async def leads_meanwhile(node: ReplicatedNode) -> None:
        held_of(node).publish(message(*range(70_000, 70_050)), True)
        await stored(node)

    data = await there_and_back(tmp_path, declares, cut_off, leads_meanwhile)
    async with replicated_node(data, BEGIN + 5_000_000) as again:
        await again.lead(3)
        held, queue = held_of(again), again.vhost.queues["q"]
        assert held.count == 50
        await pass_seconds(again, 70)
        await settled(again, held)
        assert bodies(queue) == list(range(70_000, 70_050))


async def test_what_was_not_settled_for_good_is_delivered_by_the_leader_that_leads_again(
    tmp_path: Path,
) -> None:
    async def before(node: ReplicatedNode) -> None:
        held, _ = await later(node)
        held.publish(message(60_000, 61_000, 62_000), True)
        await node.drained()
        await stored(node)

    async def cut_off(node: ReplicatedNode) -> None:
        assert held_of(node).cancel(ScheduledRecord(BEGIN + 60_000_000, 2, 0))
        await stored(node)
        assert held_of(node).cancel_all() == 2
        await stored(node)

    async def nothing(node: ReplicatedNode) -> None:
        assert held_of(node).count == 3

    data = await there_and_back(tmp_path, before, cut_off, nothing)
    async with replicated_node(data, BEGIN + 5_000_000) as again:
        await again.lead(3)
        held, queue = held_of(again), again.vhost.queues["q"]
        assert held.count == 3
        await pass_seconds(again, 70)
        await settled(again, held)
        assert bodies(queue) == [60_000, 61_000, 62_000]


@pytest.mark.parametrize("durable", [True, False])
async def test_an_exchange_that_was_not_committed_leaves_nothing_to_one_of_its_number(
    tmp_path: Path, durable: bool
) -> None:
    async def cut_off(node: ReplicatedNode) -> None:
        node.vhost.declare_exchange(
            Exchange(
                "theirs",
                "x-delayed-message",
                durable=durable,
                arguments={"x-delayed-type": "fanout"},
            )
        )
        held = node.vhost.hosted.delays.held("theirs")
        assert held is not None
        held.publish(message(*range(60_000, 60_050)), True)
        await stored(node)

    async def nothing(node: ReplicatedNode) -> None:
        return

    async def leads_meanwhile(node: ReplicatedNode) -> None:
        held, _ = await later(node)
        held.publish(message(*range(70_000, 70_050)), True)

    data = await there_and_back(tmp_path, nothing, cut_off, leads_meanwhile)
    async with replicated_node(data, BEGIN + 5_000_000) as again:
        await again.lead(3)
        held, queue = held_of(again), again.vhost.queues["q"]
        await pass_seconds(again, 70)
        await settled(again, held)
        assert bodies(queue) == list(range(70_000, 70_050))


async def test_a_deletion_that_was_not_committed_takes_no_message(tmp_path: Path) -> None:
    async def before(node: ReplicatedNode) -> None:
        held, _ = await later(node)
        held.publish(message(60_000, 61_000), True)
        await node.drained()
        await stored(node)

    async def cut_off(node: ReplicatedNode) -> None:
        node.vhost.delete_exchange("later", if_unused=False)
        await stored(node)

    async def nothing(node: ReplicatedNode) -> None:
        return

    data = await there_and_back(tmp_path, before, cut_off, nothing)
    async with replicated_node(data, BEGIN + 5_000_000) as again:
        await again.lead(3)
        held, queue = held_of(again), again.vhost.queues["q"]
        await pass_seconds(again, 70)
        await settled(again, held)
        assert bodies(queue) == [60_000, 61_000]


async def test_messages_before_settled_ones_are_delivered_by_a_leader_that_had_no_schedule(
    tmp_path: Path,
) -> None:
    async with replicated_node(tmp_path / "a") as leader:
        await leader.lead(1)
        held, queue = await later(leader)
        held.publish(message(60_000), True)
        await leader.drained()
        first = len(leader.made)
        held.publish(message(61_000), True)
        assert held.cancel(ScheduledRecord(BEGIN + 61_000_000, 2, 1))
        await leader.drained()
        position = leader.logs.journal.end.position
        for _ in range(8):  # full files, which the follower gives back
            queue.publish(records(bytes(300_000)), waited=True)
            await leader.drained()
        queue.purge()
        await leader.drained()
        made = list(leader.made)
    async with replicated_node(tmp_path / "b") as follower:
        await follower.follow(made[:first])
        await follower.logs.checkpoints.flush()
        await follower.follow(made[first:])
        await follower.logs.checkpoints.take()
        await until(lambda: follower.logs.journal.mark(position) is None)
        data = await follower.killed("killed")  # which has nothing of what is settled
    async with replicated_node(data) as again:
        await again.lead(2)
        held, queue = held_of(again), again.vhost.queues["q"]
        await pass_seconds(again, 70)
        assert all(held.scanned)
        await settled(again, held)
        assert bodies(queue) == [60_000]
