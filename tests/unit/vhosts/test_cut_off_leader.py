"""A leader that is cut off from the others goes on; none of it may be missed when it is taken back."""

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.queue_samples import declare_queue, records
from support.waiting import until
from unit.log_backend.copies.test_copies import materialized
from unit.log_backend.open_store import unsettled
from unit.vhosts import replicated_nodes
from unit.vhosts.replicated_nodes import ReplicatedNode, replicated_node

from routelog.log_backend.journal import journal
from routelog.log_backend.journal.journal_block import Reason
from routelog.vhosts import QueueProperties

QUEUES: Mapping[str, dict[str, Any]] = {
    "plain": {},
    "short": {"x-max-length": 6},
    "newest": {"x-max-length": 5, "x-overflow": "drop-head"},
    "dead": {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "plain", "x-max-length": 8},
    "kept": {"x-retention": "1h"},
}
Left = dict[str, list[tuple[int, bytes]]]


class Clients:
    """What they do, drawn at random, with the queues of a leader."""

    def __init__(self, leader: ReplicatedNode, draw: random.Random) -> None:
        self._queues = [leader.vhost.queues[name] for name in QUEUES]
        self._leader = leader
        self._draw = draw
        self._held: list[Any] = []
        self._count = 0

    async def step(self) -> None:
        """Something of it, and perhaps a flush or a checkpoint."""
        some: list[Callable[[], None]] = [self._publish, self._get, self._settle]
        self._draw.choice([*some * 3, self._give_back, self._purge, self._empty])()
        if self._draw.random() < 0.3:
            await self._leader.drained()
        if self._draw.random() < 0.2:
            await self._leader.logs.checkpoints.flush()
        if self._draw.random() < 0.06:
            await self._leader.logs.checkpoints.take()

    def _publish(self) -> None:
        queue = self._draw.choice(self._queues)
        for _ in range(self._draw.randrange(1, 6)):
            self._count += 1
            body = b"%d-" % self._count + bytes(self._draw.choice([0, 0, 20, 300, 1_500]))
            queue.publish(records(body), waited=True)

    def _get(self) -> None:
        queue = self._draw.choice(self._queues)
        some = (queue.get() for _ in range(self._draw.randrange(1, 10)))
        self._held += [each for each in some if each is not None]

    def _settle(self) -> None:
        if self._draw.random() < 0.4:
            self._draw.shuffle(self._held)
        for _ in range(min(len(self._held), self._draw.randrange(1, 10))):
            held = self._held.pop(0)
            reason = self._draw.choice([Reason.ACKED, Reason.REJECTED])
            held.partition.settle(held.offset, held.offset + 1, reason)

    def _give_back(self) -> None:
        if self._held:
            held = self._held.pop(0)
            held.partition.give_back(held.offset, held.offset + 1)

    def _purge(self) -> None:
        if self._draw.random() < 0.15:
            self._draw.choice(self._queues).purge()

    def _empty(self) -> None:
        for queue in self._queues:
            queue.partitions[0].log.remove_settled_segments()


async def left(node: ReplicatedNode) -> Left:
    logs = {name: node.vhost.queues[name].partitions[0].log for name in QUEUES}
    return {
        name: [(at, bytes(body)) for at, body in await unsettled(log)] for name, log in logs.items()
    }


@pytest.mark.parametrize("seed", range(14, 26))
async def test_it_has_what_was_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, seed: int
) -> None:
    draw = random.Random(seed)
    small = replace(replicated_nodes.OPTIONS, segment_bytes=4_096)
    monkeypatch.setattr(replicated_nodes, "OPTIONS", small)
    monkeypatch.setattr(journal, "TOLD_SECONDS_MAX", 0.02)
    kept: list[tuple[Path, int, Left]] = []
    async with replicated_node(tmp_path / "leader") as leader:
        await leader.lead(1)
        for name, arguments in QUEUES.items():
            properties = QueueProperties(name, durable=True, arguments=arguments)
            _, stored = declare_queue(leader.vhost, properties, None)
            assert stored is not None
            await stored
        clients, log = Clients(leader, draw), leader.logs.journal
        for number in range(3):
            for _ in range(draw.randrange(10, 60)):
                await clients.step()
            told = asyncio.Event()
            log.when_told(told.set)
            await told.wait()
            await until(lambda: log.committed == log.durable == log.end.position)
            committed, expected = log.committed, await left(leader)
            leader.connected = False
            for _ in range(draw.randrange(5, 40)):
                await clients.step()
            copy = leader.logs.copies.begin()
            await copy.taken
            kept.append((materialized(copy, tmp_path / f"copy{number}"), committed, expected))
            copy.end()
            await leader.drained()
            kept.append((await leader.killed(f"killed{number}"), committed, expected))
            leader.connected = True
            log.commit(log.durable)
    for directory, committed, expected in kept:
        async with replicated_node(directory) as again:
            if again.logs.journal.end.position > committed:
                await again.cut(committed)
            await again.lead(9)
            assert await left(again) == expected, directory.name
    assert not [each for each in caplog.messages if "quarantined" in each]
