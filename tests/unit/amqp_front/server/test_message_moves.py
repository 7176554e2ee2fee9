"""Operators' moves that stop: tests/scenarios/management/test_moved_messages.py has all else."""

from __future__ import annotations

import asyncio
from collections import deque
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from support.loop_services import scheduler_on
from support.queue_samples import declare_queue, fill, running_node
from unit.vhosts.rules.test_unique_keys import keyed

from routelog.amqp_front.server.message_moves import MessageMoves
from routelog.broker.waiting.gate import Gate
from routelog.vhosts import (
    MessageFilter,
    MessageSearch,
    MoveMode,
    MoveOrder,
    Place,
    QueueProperties,
    ToQueue,
    nowhere,
)


async def test_a_move_out_of_a_deleted_queue_has_no_rest(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        queue = declare_queue(node.vhost, QueueProperties("q", durable=False), object())[0]
        fill(queue, 3)
        node.vhost.delete_queue(queue)
        moves = MessageMoves(cast(Any, None), node.vhost, queue)
        search = MessageSearch(queue, MessageFilter(), [Place(0, 0, 3)])
        report = await moves.carry_out(search, MoveOrder(MoveMode.DELETE, nowhere, 10))
    assert (report.count, report.places) == (0, [])
    assert report.stopped == "queue 'q' in vhost '/' was deleted"


async def test_a_move_stops_where_its_node_may_not_know_all_queues(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        queue = declare_queue(node.vhost, QueueProperties("q", durable=False), object())[0]
        fill(queue, 3)
        gate, clock = Gate(asyncio.get_running_loop()), node.logs.clock
        gate.lapses_at, gate.lapse = clock.monotonic(), lambda: gate.close_for({"leader"})
        services = SimpleNamespace(gate=gate, clock=clock)
        moves = MessageMoves(cast(Any, services), node.vhost, queue)
        search = MessageSearch(queue, MessageFilter(), [Place(0, 0, 3)])
        report = await moves.carry_out(search, MoveOrder(MoveMode.MOVE, nowhere, 10))
        gate.close_for(set())
    assert (report.count, report.stopped) == (0, "publishers wait: leader")


async def test_a_move_to_the_end_of_its_queue_keeps_the_message_of_a_key(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        properties = QueueProperties("q", arguments={"x-message-deduplication": True})
        queue = declare_queue(node.vhost, properties, object())[0]
        queue.publish(keyed("a", "b"), waited=False)
        loop = asyncio.get_running_loop()
        services = SimpleNamespace(
            gate=Gate(loop),
            clock=node.logs.clock,
            loop=loop,
            scheduler=scheduler_on(loop),
            progress=node.logs.progress,
            settlings=deque(),
        )
        moves = MessageMoves(cast(Any, services), node.vhost, queue)
        search = MessageSearch(queue, MessageFilter(), [Place(0, 0, 1)])
        order = MoveOrder(MoveMode.MOVE, ToQueue("q", node.vhost.queues), 10)
        report = await moves.carry_out(search, order)
        assert (report.count, report.stopped) == (1, "")
        assert list(queue.partitions[0].ready_ranges()) == [(1, 3)]
        queue.publish(keyed("a", "b"), waited=False)
        assert queue.ready == 2
