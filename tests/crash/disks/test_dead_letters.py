"""A power cut before any call of the disk while rejected messages become dead letters: none is lost.

Each message is in the queue it was confirmed for, in the queue of dead letters, or in both.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
from pathlib import Path

import pytest
from crash.disks.node import WAIT_SECONDS, Node, NodeStill, whole_log
from crash.disks.powered_disk import PoweredDisk
from unit.log_backend.log_records import records
from unit.log_backend.open_store import unsettled

from routelog.log_backend import Reason

pytestmark = pytest.mark.crash

CUTS = os.environ.get("ROUTELOG_TEST_CUTS", "24")
SEED = int(os.environ.get("ROUTELOG_TEST_SEED", "1"))
ROUNDS = 16
BATCH = 6


class Undertaking:
    """Publishes numbered messages, rejects them, and keeps what was confirmed at each call."""

    def __init__(self) -> None:
        self.confirmed: set[bytes] = set()
        self.stills: list[tuple[NodeStill, frozenset[bytes]]] = []

    def watch(self, node: Node) -> None:
        self.stills.append((node.still(), frozenset(self.confirmed)))

    async def run(self, node: Node, size: int) -> None:
        await node.declare("morgue")
        await node.declare("source", x_dead_letter_exchange="", x_dead_letter_routing_key="morgue")
        for number in range(ROUNDS):
            first = number * BATCH
            bodies = [(b"%d " % each).ljust(size, b".") for each in range(first, first + BATCH)]
            position = node.queue("source").publish(records(bodies), waited=True)
            await node.confirmed(position)
            self.confirmed.update(bodies)
            if number % 5 == 4:
                await node.store.checkpoints.flush()
            await self._reject(node)
        await node.confirmed(node.queue("morgue").publish(records([b"end"]), waited=True))

    async def _reject(self, node: Node) -> None:
        # All, but for the second of each delivery, which stays in hand.
        queue = node.queue("source")
        async with asyncio.timeout(WAIT_SECONDS):
            while queue.ready:
                delivery = queue.partitions[0].take(BATCH, 1 << 20)
                if delivery is None:
                    await asyncio.sleep(0)  # it is being loaded
                    continue
                end = delivery.offset + delivery.count
                queue.partitions[0].settle(delivery.offset, delivery.offset + 1, Reason.REJECTED)
                if delivery.count > 2:
                    queue.partitions[0].settle(delivery.offset + 2, end, Reason.REJECTED)


async def found_in(node: Node) -> set[bytes]:
    """What is in either queue."""
    source, morgue = node.log("source"), node.log("morgue")
    left = dict(await unsettled(source)).values()
    return {*left, *(await whole_log(morgue)).values()}


@pytest.mark.parametrize("size", [100, 900])
async def test_a_power_cut_before_any_call_loses_no_dead_letter(size: int, tmp_path: Path) -> None:
    choice = random.Random(f"{SEED} {size}")
    work = Undertaking()
    node = Node(PoweredDisk(tmp_path / "0", choice), watch=work.watch)
    await node.start()
    await work.run(node, size)
    node.watch = lambda node: None
    assert len(await whole_log(node.log("morgue"))) > ROUNDS * BATCH // 2
    await node.stop()
    after_declaration = [each for each in work.stills if each[1]]
    stills = after_declaration
    if CUTS != "all":
        stills = choice.sample(stills, min(int(CUTS), len(stills)))
    for number, (still, confirmed) in enumerate(stills):
        root = tmp_path / f"cut-{number}"
        node = Node(still.disk.place(root, choice))
        await node.start(still.metadata)
        lost = confirmed - await found_in(node)
        await node.stop()
        assert not lost, f"cut before call {still.operation}: {sorted(lost)[:3]}"
        shutil.rmtree(root)
