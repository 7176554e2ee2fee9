"""After a failed sync the system's cache shows what the disk never got, and the next sync succeeds.

A restart reads the cache. What it builds on it has to write again first, or a later power cut takes it.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from crash.disks.node import Node, NodeStill, recovered
from crash.disks.powered_disk import PoweredDisk

from routelog.log_backend.journal.journal import JournalFailed

pytestmark = pytest.mark.crash

POWER_CUTS = 8  # with other luck each


async def running_node(root: Path) -> Node:
    node = Node(PoweredDisk(root / "run", random.Random(1)))
    await node.start()
    assert node.store.checkpoints._timer is not None
    node.store.checkpoints._timer.cancel()  # segments are written when the test says so
    await node.declare("a", "b")
    return node


async def restarted(node: Node) -> Node:
    """The same machine, another process."""
    node.disk.plan.repair()
    await node.stop()
    return await recovered(node.disk, node.promises)


async def check_power_cuts(node: Node, root: Path) -> None:
    """Whatever a power cut leaves now keeps the promises."""
    stills: list[NodeStill] = [node.still() for _ in range(POWER_CUTS)]
    await node.stop()
    for number, still in enumerate(stills):
        again = await still.recovered(root / f"cut-{number}", random.Random(number))
        await again.stop()


async def test_the_block_of_a_failed_sync_does_not_leave_a_hole_in_the_journal(
    tmp_path: Path,
) -> None:
    node = await running_node(tmp_path)
    await node.confirmed(node.append("a"))
    node.disk.plan.fail_next("sync", "*.journal")
    with pytest.raises(JournalFailed):
        await node.confirmed(node.append("a"))
    node = await restarted(node)
    await node.confirmed(node.append("a"))
    await check_power_cuts(node, tmp_path)


async def test_a_segment_of_a_failed_sync_is_written_again_before_the_journal_forgets_it(
    tmp_path: Path,
) -> None:
    node = await running_node(tmp_path)
    await node.confirmed(node.append("a", 3, 900))
    await node.store.checkpoints.flush()
    node.disk.plan.fail_next("sync", "*.log")
    await node.store.checkpoints.take()
    assert node.failures
    node = await restarted(node)
    await node.store.checkpoints.take()
    await fill_journal(node)
    await check_power_cuts(node, tmp_path)


@pytest.mark.parametrize(("kind", "names"), [("sync", "*/PARTITION"), ("sync_directory", "*/a-0")])
async def test_a_partitions_number_that_could_not_be_synced_is_written_again(
    tmp_path: Path, kind: str, names: str
) -> None:
    node = await running_node(tmp_path)
    node.disk.plan.fail_next(kind, names)
    await node.confirmed(node.append("a", 3, 900))
    await node.store.checkpoints.flush()
    assert node.failures
    node = await restarted(node)
    await fill_journal(node)
    await check_power_cuts(node, tmp_path)


async def fill_journal(node: Node) -> None:
    """Until all of the files were recycled."""
    for _ in range(12):
        await node.confirmed(node.append("b", 1, 9_000))
