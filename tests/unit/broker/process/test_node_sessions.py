"""The sessions of a node: of one on its own, and of one that others follow."""

from __future__ import annotations

import asyncio
from pathlib import Path

from support.byte_client import running_broker

from routelog.broker.sessions.hosted_sessions import Leadership
from routelog.broker.waiting.gate import UNLED


async def test_a_node_on_its_own_asks_nobody_and_waits_for_its_disk(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        done = asyncio.get_running_loop().create_future()
        assert await broker.sessions.ask(b"who?") == {}
        assert broker.sessions.in_time(done) is done


async def test_replies_and_firehoses_of_a_leader_are_those_of_all_its_nodes(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        sessions, services = broker.sessions, broker.services
        hosted = sessions.lead(Leadership(1, 60.0))
        assert services.replies.others is hosted
        sessions.trace(services.vhosts.get("/"), True)
        assert hosted._traced() == ["/"]
        sessions.trace(services.vhosts.get("/"), False)
        assert hosted._traced() == []
        sessions.tell_counts()
        assert sessions._timer is not None
        sessions.stop_timers()
        assert sessions._timer.cancelled()


async def test_who_begins_to_lead_without_room_on_its_disk_has_all_publishers_wait(
    tmp_path: Path,
) -> None:
    async with running_broker(tmp_path) as broker:
        broker.services.gate.close_for({"disk", UNLED})
        assert broker.sessions.lead(Leadership(1, 60.0))._pressure == {"disk"}
