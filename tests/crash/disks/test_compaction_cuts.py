"""Power cuts and kills between any two disk operations of compaction, and of what goes on beside it.

Whatever is left: the log, read from any offset and folded by key, is what was published from there on, folded.
"""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from crash.disks.node import WatchedMetadata
from crash.disks.powered_disk import DiskStill, PoweredDisk
from unit.log_backend.compacted_log import (
    AT_ONCE,
    TINY,
    Stored,
    compact_here,
    folded,
    idle,
    publish,
    read_from,
)
from unit.log_backend.open_store import durable, flushed, open_store

from routelog.log_backend import Change
from routelog.log_backend.log_store import LogStore
from routelog.log_backend.partitions.partition_log import PartitionLog
from routelog.log_backend.segments.retention import Retention

pytestmark = pytest.mark.crash

HISTORIES = int(os.environ.get("ROUTELOG_TEST_COMPACTIONS", "3"))
CUTS = int(os.environ.get("ROUTELOG_TEST_COMPACTION_CUTS", "6"))  # of one history
ROUNDS = 4
NOTHING: Mapping[bytes, bytes] = {}


@dataclass
class History:
    """One log, and all that was published to it and is durable.

    Attributes:
        stills: what power cuts and kills may leave, each with what was durable then.
    """

    disk: PoweredDisk
    choice: random.Random
    stored: list[Stored] = field(default_factory=list)
    stills: list[tuple[DiskStill, Mapping[bytes, bytes], int]] = field(default_factory=list)
    chance: float = 0.0

    def start(self, retention: Retention, metadata: Mapping[bytes, bytes], epoch: int) -> None:
        self.store = store = open_store(self.disk.root, TINY, self.disk)
        compact_here(store, self.disk)
        store.metadata.apply([Change(*each) for each in metadata.items()], synced=False)
        self.metadata = WatchedMetadata(store.metadata, self.disk)
        store.recover_metadata()
        compression = self.choice.choice(("none", "lz4"))
        self.partition = store.open_partition(
            1, "/", "q", 0, durable=True, retention=retention, compression=compression
        )
        store.recover()
        store.start(epoch)
        self.disk.before_operation = self._look

    def _look(self) -> None:
        if self.choice.random() < self.chance and len(self.stills) < CUTS:
            self.disk.before_operation = None
            with self.disk.paused():
                if self.choice.random() < 0.7:
                    still = self.disk.still_after_power_cut()
                    metadata = self.metadata.after_power_cut(self.choice)
                else:
                    still = self._after_kill()
                    metadata = self.metadata.after_kill()
            self.stills.append((still, metadata, len(self.stored)))
            self.disk.before_operation = self._look

    def _after_kill(self) -> DiskStill:
        root = self.disk.root
        paths = [path for path in root.rglob("*") if path.is_file()]
        files = {path.relative_to(root): path.read_bytes() for path in paths if self._is_ours(path)}
        return DiskStill(self.disk._directories(), files)

    def _is_ours(self, path: Path) -> bool:
        return "metadata" not in path.relative_to(self.disk.root).parts

    async def work(self) -> None:
        for _ in range(self.choice.randint(3, 12)):
            pairs = [
                (f"key {self.choice.randrange(8)}", self._body())
                for _ in range(self.choice.randint(1, 6))
            ]
            self.stored += publish(self.partition, *pairs)
        await self.store.journal.drain()
        await durable(self.store, self.store.journal.groups.promised)
        self.chance = self.choice.choice((0.0, 0.02, 0.1))
        await flushed(self.store)
        if self.choice.random() < 0.5:
            await self.store.checkpoints.take()
        await idle(self.store)
        self.chance = 0.0

    def _body(self) -> bytes:
        return b"" if self.choice.random() < 0.2 else self.choice.randbytes(300)


async def check(partition: PartitionLog, stored: list[Stored]) -> None:
    assert not partition.is_damaged, partition.damage
    assert partition.next_offset == len(stored)
    left = await read_from(partition, partition.first_offset)
    assert set(left) <= set(stored)
    for offset in range(partition.first_offset, len(stored)):
        expected = folded(stored[offset:])
        assert folded([each for each in left if each.offset >= offset]) == expected, offset


async def ended(store: LogStore) -> None:
    store.compactor.stop()
    await store.aclose()


@pytest.mark.parametrize("seed", range(HISTORIES))
async def test_a_compacted_log_outlives_power_cuts_and_kills(seed: int, tmp_path: Path) -> None:
    choice = random.Random(seed)
    retention = AT_ONCE
    if choice.random() < 0.4:
        retention = replace(AT_ONCE, bytes_max=choice.randint(3_000, 12_000))
    first = History(PoweredDisk(tmp_path / "first", choice), choice)
    first.start(retention, NOTHING, 1)
    for _ in range(ROUNDS):
        await first.work()
        await check(first.partition, first.stored)
    passes = first.store.compactor.passes
    assert passes or len(first.partition.segments) < 3
    await ended(first.store)
    for number, (still, metadata, count) in enumerate(first.stills):
        disk = still.place(tmp_path / str(number), choice)
        left = History(disk, choice, first.stored[:count])
        left.start(retention, metadata, 2)
        await check(left.partition, left.stored)
        await left.work()
        await check(left.partition, left.stored)
        await ended(left.store)
