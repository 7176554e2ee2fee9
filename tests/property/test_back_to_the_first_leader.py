"""A leader that does anything is cut off, another one does anything at the same offsets, and both end alike."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Awaitable
from pathlib import Path

import pytest
from property.test_follower import Leader
from support.log_states import LogState, states_of
from unit.log_backend.log_records import records
from unit.vhosts.replicated_nodes import ReplicatedNode, replicated_node, there_and_back

from routelog.log_backend.journal import journal

SEEDS = int(os.environ.get("ROUTELOG_TEST_EXAMPLES", "8"))
OPERATIONS = 25


class Anything(Leader):
    """What a leader of `test_follower` does, in a node whose journal is a replica's; and transient messages."""

    def __init__(self, node: ReplicatedNode, choice: random.Random) -> None:
        self.store = node.logs
        self.vhost = node.vhost
        self._choice = choice
        self._answers: list[Awaitable[object]] = []
        self._body = choice.randrange(1_000_000)

    async def some(self) -> None:
        """Do something; what is to be answered may never be."""
        for _ in range(OPERATIONS):
            operation = self._choice.choices(
                (self.declare, self.delete, self.publish, self.transient, self.settle, self.transact,
                 self.group, self.exchange, self.purge, self.flush, self.checkpoint),
                (3, 1, 10, 6, 6, 2, 2, 1, 1, 2, 2),
            )[0]  # fmt: skip
            await operation()

    async def transient(self) -> None:
        if queue := self._queue():
            log = self._choice.choice(queue.partitions).log
            if not log.is_stream:
                body = b"%d" % self._choice.randrange(1_000_000)
                log.append(records([body] * self._choice.randint(1, 9), persistent=False), False)

    async def checkpoint(self) -> None:
        await self.store.checkpoints.take()


async def led(data: Path) -> dict[int, LogState]:
    """What a node has when it leads."""
    async with replicated_node(data) as node:
        await node.lead(9)
        return await states_of(node.logs, with_streams=False)


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_a_leader_that_was_cut_off_ends_with_what_the_next_one_has(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "TOLD_SECONDS_MAX", 0.02)
    choice = random.Random(seed)
    ends: list[Path] = []

    async def anything(node: ReplicatedNode) -> None:
        await Anything(node, choice).some()

    async def elsewhere(node: ReplicatedNode) -> None:
        await anything(node)
        await node.drained()
        await asyncio.sleep(0)
        ends.append(await node.killed("second"))

    data = await there_and_back(tmp_path, anything, anything, elsewhere, committed=anything)
    assert await led(data) == await led(ends[0])
