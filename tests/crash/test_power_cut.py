"""Power cuts and kills of a log store between any two disk operations, on ageing data."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from crash.powered_disk import PoweredDisk
from unit.log_backend.log_records import records
from unit.log_backend.open_store import MIB, durable, start_store, unsettled

from log_backend.log_store import LogOptions, LogStore
from log_backend.partition_log import PartitionLog

pytestmark = pytest.mark.crash

HISTORIES = int(os.environ.get("ROUTELOG_TEST_POWER_CUTS", "40"))
ENDS = 6  # of one history: power cuts and kills, each on what the one before left
STEPS = 30
QUEUES = ("a", "b", "c")
LIMITS = LogOptions(
    journal_file_bytes=64 * 1024,
    journal_files_max=4,
    segment_bytes=24 * 1024,
    memory_tail_bytes=32 * 1024,
    flush_seconds=0.002,
)


class Promises:
    """The records of one partition: appended, durable for certain, settled by somebody."""

    def __init__(self) -> None:
        self.appended: dict[int, bytes] = {}
        self.positions: dict[int, int] = {}
        self.settled: set[int] = set()
        self.confirmed: set[int] = set()

    def note_durable(self, position: int) -> None:
        """The journal has reached a position."""
        reached = [offset for offset, needed in self.positions.items() if needed <= position]
        for offset in reached:
            del self.positions[offset]
        self.confirmed.update(reached)


class Node:
    """A store under random work; `finish` is what is true of it at one instant."""

    def __init__(self, disk: PoweredDisk, choice: random.Random, promises: list[Promises]) -> None:
        self.disk = disk
        self.choice = choice
        self.promises = promises
        self.store, self.partitions = start_store(
            disk.root, options=LIMITS, disk=disk, queues=QUEUES
        )
        _pause_metadata(self.store, disk)
        self.store.on_durable = self._durable
        self._end_at = disk.operations + choice.randint(1, 150)

    def _durable(self, position: int) -> None:
        for promises in self.promises:
            promises.note_durable(position)

    async def work(self) -> None:
        """Append, settle and idle until enough disk operations were done."""
        for _ in range(STEPS):
            if self.disk.operations >= self._end_at:
                return
            partition = self.choice.randrange(len(QUEUES))
            if self.choice.random() < 0.7:
                self._append(self.partitions[partition], self.promises[partition])
            else:
                self._settle(self.partitions[partition], self.promises[partition])
            if self.choice.random() < 0.5:
                await asyncio.sleep(self.choice.choice((0, 0, 0.001, 0.004)))

    def _append(self, partition: PartitionLog, promises: Promises) -> None:
        size = self.choice.choice((1, 100, 600, 5_000))
        count = self.choice.randint(1, 5)
        first = partition.next_offset
        bodies = [b"%d " % offset + bytes(size) for offset in range(first, first + count)]
        position = partition.append(records(bodies), waited=self.choice.random() < 0.8)
        for offset, body in enumerate(bodies, first):
            promises.appended[offset] = body
            promises.positions[offset] = position
            promises.confirmed.discard(offset)
            promises.settled.discard(offset)

    def _settle(self, partition: PartitionLog, promises: Promises) -> None:
        cursor = partition.open_cursor()
        first = self.choice.randint(cursor.low_water, partition.next_offset)
        if self.choice.random() < 0.7:
            first = cursor.low_water
        end = min(partition.next_offset, first + self.choice.randint(1, 12))
        if first < end:
            promises.settled.update(range(first, end))
            cursor.settle(first, end)
            partition.release()

    async def leave(self) -> None:
        """Let go of everything; what is written now is on the old image."""
        await self.store.aclose()


def _pause_metadata(store: LogStore, disk: PoweredDisk) -> None:
    # An image is taken between two writes of the metadata, not in the middle of one.
    def paused(function: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **options: object) -> object:
            with disk.paused():
                return function(*arguments, **options)

        return call

    for name in ("apply", "sync"):
        setattr(store.metadata, name, paused(getattr(store.metadata, name)))


async def check(node: Node) -> None:
    for queue, partition, promises in zip(QUEUES, node.partitions, node.promises, strict=True):
        found = dict(await unsettled(partition))
        for offset, body in found.items():
            assert promises.appended[offset] == body, f"{queue}: other bytes at {offset}"
        lost = promises.confirmed - promises.settled - set(found)
        assert not lost, f"{queue}: confirmed records are lost: {sorted(lost)[:10]}"
        _forget_lost(partition, promises, set(found))


def _forget_lost(partition: PartitionLog, promises: Promises, found: set[int]) -> None:
    # What was recovered is there for good; what was not will have its offsets given again.
    promises.confirmed = found
    promises.settled = set(range(partition.next_offset)) - found
    promises.appended = {offset: promises.appended[offset] for offset in found}
    promises.positions.clear()


@pytest.mark.parametrize("seed", range(HISTORIES))
async def test_what_was_confirmed_outlives_power_cuts_and_kills(seed: int, tmp_path: Path) -> None:
    choice = random.Random(seed)
    disk = PoweredDisk(tmp_path / "0", choice)
    node = Node(disk, choice, [Promises() for _ in QUEUES])
    for end in range(1, ENDS + 1):
        await node.work()
        target = tmp_path / str(end)
        with node.disk.paused():
            for promises in node.promises:
                promises.note_durable(node.store.journal.durable)
            cut = choice.random() < 0.6
            image = node.disk.image_after_power_cut if cut else node.disk.image_after_kill
            disk = image(target)
        old = node
        await old.leave()
        node = Node(disk, choice, old.promises)
        await check(node)
        shutil.rmtree(old.disk.root)
    await node.leave()


async def test_the_disk_of_this_test_loses_what_was_not_synced(tmp_path: Path) -> None:
    disk = PoweredDisk(tmp_path / "0", random.Random(1))
    store, (partition, *_) = start_store(disk.root, options=LIMITS, disk=disk, queues=QUEUES)
    await durable(store, partition.append(records([b"kept"]), waited=True))
    disk.make_directory(disk.root / "other")
    file = disk.open(disk.root / "other" / "file", create=True)
    disk.write(file, 0, [bytes([1]) * MIB])
    with disk.paused():
        images = [disk.image_after_power_cut(tmp_path / str(n)) for n in range(1, 9)]
    await store.aclose()
    sizes = {path.stat().st_size for image in images for path in image.root.glob("other/file")}
    assert len(sizes) > 1
