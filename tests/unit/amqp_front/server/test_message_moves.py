"""Operators' moves, where a queue goes away: tests/scenarios/management/test_moved_messages.py has all else."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from support.queue_samples import declare_queue, fill, running_node

from routelog.amqp_front.server.message_moves import MessageMoves
from routelog.vhosts import (
    MessageFilter,
    MessageSearch,
    MoveMode,
    MoveOrder,
    Place,
    QueueProperties,
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
