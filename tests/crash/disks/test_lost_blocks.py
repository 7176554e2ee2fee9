"""Blocks of the journal that nothing synced: a power cut may keep those behind one that it takes."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest
from crash.disks.node import Node
from crash.disks.powered_disk import PoweredDisk
from support.waiting import WAIT_SECONDS

pytestmark = pytest.mark.crash

BLOCKS = 5
POWER_CUTS = 12  # with other luck each


async def written(node: Node, position: int) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while node.store.journal.written < position:  # noqa: ASYNC110
            await asyncio.sleep(0)


async def test_blocks_behind_a_lost_one_do_not_come_between_what_is_confirmed_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    node = Node(PoweredDisk(tmp_path / "run", random.Random(1)))
    await node.start()
    await node.declare("synced")
    await node.declare("written", x_durability="os")
    await node.confirmed(node.append("synced"))
    for _ in range(BLOCKS):
        await written(node, node.append("written"))
    stills = [node.still() for _ in range(POWER_CUTS)]
    await node.stop()
    for number, still in enumerate(stills):
        again = await still.recovered(tmp_path / f"cut-{number}", random.Random(number))
        await again.confirmed(again.append("synced"))
        again = await again.restart_after_kill(tmp_path / f"killed-{number}")
        await again.stop()
    assert "commits behind lost ones" in caplog.text
