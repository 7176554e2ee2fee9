"""Power cuts and kills of a log store between any two disk operations, on ageing data."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from crash.disks.powered_disk import PoweredDisk
from support.durable_positions import tell_durable
from unit.log_backend.log_records import records
from unit.log_backend.open_store import MIB, start_store, unsettled

from routelog.log_backend.log_store import LogOptions
from routelog.log_backend.metadata.metadata import Change, MetadataStore
from routelog.log_backend.partitions.partition_log import PartitionLog
from routelog.log_backend.records.durability import Durability

pytestmark = pytest.mark.crash

HISTORIES = int(os.environ.get("ROUTELOG_TEST_POWER_CUTS", "10"))
ENDS = 6  # of one history: power cuts and kills, each on what the one before left
STEPS = 30
QUEUES = ("a", "b", "c", "d")
DURABILITIES = (Durability.DISK, Durability.OS, Durability.MEMORY, Durability.DISK)
LIMITS = LogOptions(
    journal_file_bytes=64 * 1024,
    journal_files_max=4,
    segment_bytes=24 * 1024,
    memory_tail_bytes=32 * 1024,
    flush_seconds=0.002,
)


@dataclass
class CursorState:
    """What a cursor was told of its messages."""

    handed_out: int = 0
    settled: set[int] = field(default_factory=set)
    redelivered: dict[int, int] = field(default_factory=dict)


class Promises:
    """The records of one partition: appended, safe from what happens next, settled by somebody.

    A record is safe from a power cut when the journal calls its position durable, and from the end
    of the process when it calls it written, whatever its queue asked for. That of a queue of level
    MEMORY has no position: it may be there or not.
    """

    def __init__(self) -> None:
        self.appended: dict[int, bytes] = {}
        self.positions: dict[int, int] = {}
        self.settled: set[int] = set()
        self.confirmed: set[int] = set()
        self.state = CursorState()
        self.durable_state = CursorState()
        self._states: dict[int, CursorState] = {}

    def note_state(self, position: int) -> None:
        """What the cursor knows at this moment is durable with a record that is appended now."""
        state = self.state
        self._states[position] = CursorState(
            state.handed_out, set(state.settled), dict(state.redelivered)
        )

    def note_durable(self, position: int) -> None:
        """The journal has reached a position."""
        for needed in sorted(each for each in self._states if each <= position):
            self.durable_state = self._states.pop(needed)
        reached = [offset for offset, needed in self.positions.items() if needed <= position]
        for offset in reached:
            del self.positions[offset]
        self.confirmed.update(reached)

    def end(self, reached: int) -> None:
        """The node dies when the journal has reached a position that it does not lose."""
        self.note_durable(reached)
        self.positions.clear()
        self._states.clear()


class RandomStore:
    """A store under random work; `finish` is what is true of it at one instant."""

    def __init__(self, disk: PoweredDisk, choice: random.Random, promises: list[Promises]) -> None:
        self.disk = disk
        self.choice = choice
        self.promises = promises
        # What one start compressed, the next one reads, whatever it compresses itself.
        compression = choice.choice(("none", "zstd", "lz4"))
        self.store, self.partitions = start_store(
            disk.root,
            options=LIMITS,
            disk=disk,
            queues=QUEUES,
            durabilities=DURABILITIES,
            compression=compression,
        )
        self._metadata = WatchedMetadata(self.store.metadata, disk)
        tell_durable(self.store.progress, self._durable)
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
            if self.choice.random() < 0.6:
                self._append(self.partitions[partition], self.promises[partition])
            elif self.choice.random() < 0.4:
                self._hand_out(self.partitions[partition], self.promises[partition].state)
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
        if position:
            promises.note_state(position)
        for offset, body in enumerate(bodies, first):
            assert offset not in promises.durable_state.settled, "an offset is given twice"
            promises.appended[offset] = body
            promises.positions.pop(offset, None)
            if position:
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
            promises.state.settled.update(range(first, end))
            cursor.settle(first, end)
            partition.release()

    def _hand_out(self, partition: PartitionLog, state: CursorState) -> None:
        cursor = partition.open_cursor()
        end = min(partition.next_offset, state.handed_out + self.choice.randint(0, 9))
        state.handed_out = max(state.handed_out, end)
        cursor.hand_out(end)
        again = self.choice.randint(0, end)
        if again < end and again not in cursor.settled:
            state.redelivered[again] = state.redelivered.get(again, 0) + 1
            cursor.redeliver(again, again + 1)

    def end(self, target: Path) -> PoweredDisk:
        """End by a power cut or a kill: what is left of the data, below another directory."""
        with self.disk.paused():
            power_cut = self.choice.random() < 0.6
            journal = self.store.journal
            for promises in self.promises:
                promises.end(journal.durable if power_cut else journal.written)
            self.promises = []
            image = self.disk.image_after_power_cut if power_cut else self.disk.image_after_kill
            disk = image(target)
            only_durable = power_cut and self.choice.random() < 0.5
            self._metadata.write_image(target, only_durable=only_durable)
            return disk

    async def leave(self) -> None:
        """Let go of everything; what is written now is on the old image."""
        await self.store.aclose()


class WatchedMetadata:
    """What a metadata store holds, and what a power cut would leave of it."""

    def __init__(self, store: MetadataStore, disk: PoweredDisk) -> None:
        self._store = store
        self._disk = disk
        self._apply, self._sync = store._apply_together, store.sync
        self._durable = self._entries()
        store._apply_together = self.apply_together  # type: ignore[method-assign]
        store.sync = self.sync  # type: ignore[method-assign]

    def apply_together(self, batches: Sequence[Sequence[Change]]) -> None:
        """See `MetadataStore`."""
        with self._disk.paused():
            self._apply(batches)

    def sync(self) -> None:
        """See `MetadataStore`."""
        with self._disk.paused():
            self._sync()
            self._durable = self._entries()

    def write_image(self, data: Path, *, only_durable: bool) -> None:
        """Make a store with the same content."""
        entries = self._durable if only_durable else self._entries()
        image = MetadataStore.open(data / "metadata")
        image.apply([Change(key, value) for key, value in entries.items()], synced=False)
        image.close()

    def _entries(self) -> dict[bytes, bytes]:
        return {key: entry.value for key, entry in self._store.scan(b"")}


async def check(node: RandomStore) -> None:
    for queue, partition, promises in zip(QUEUES, node.partitions, node.promises, strict=True):
        found = dict(await unsettled(partition))
        for offset, body in found.items():
            assert promises.appended[offset] == body, f"{queue}: other bytes at {offset}"
        lost = promises.confirmed - promises.settled - set(found)
        assert not lost, f"{queue}: confirmed records are lost: {sorted(lost)[:10]}"
        _check_state(queue, partition, promises.durable_state, set(found))
        _forget_lost(partition, promises, set(found))


def _check_state(
    queue: str, partition: PartitionLog, durable: CursorState, found: set[int]
) -> None:
    cursor = partition.open_cursor()
    back = durable.settled & found
    assert not back, f"{queue}: what was settled came back: {sorted(back)[:10]}"
    handed_out = max(cursor.handed_out, cursor.low_water)
    assert handed_out >= durable.handed_out, f"{queue}: it is not known what was handed out"
    for offset in found:
        count = cursor.delivery_counts[offset]
        assert count >= durable.redelivered.get(offset, 0), f"{queue}: deliveries of {offset}"


def _forget_lost(partition: PartitionLog, promises: Promises, found: set[int]) -> None:
    # The offsets of what was not recovered will be given again, or it was settled: as long as that
    # is not durable, another crash may undo it.
    promises.confirmed &= found
    promises.settled = set(range(partition.next_offset)) - found
    cursor = partition.open_cursor()
    counts = {offset: cursor.delivery_counts[offset] for offset in found}
    promises.state = CursorState(
        max(cursor.handed_out, cursor.low_water), set(promises.durable_state.settled), counts
    )


@pytest.mark.parametrize("seed", range(HISTORIES))
async def test_what_was_confirmed_outlives_power_cuts_and_kills(seed: int, tmp_path: Path) -> None:
    choice = random.Random(seed)
    disk = PoweredDisk(tmp_path / "0", choice)
    promises_of_all = [Promises() for _ in QUEUES]
    node = RandomStore(disk, choice, promises_of_all)
    for end in range(1, ENDS + 1):
        await node.work()
        disk = node.end(tmp_path / str(end))
        await node.leave()
        shutil.rmtree(node.disk.root)
        node = RandomStore(disk, choice, promises_of_all)
        await check(node)
    await node.leave()


async def test_the_disk_of_this_test_loses_what_was_not_synced(tmp_path: Path) -> None:
    disk = PoweredDisk(tmp_path / "0", random.Random(1))
    disk.make_directory(disk.root / "d")
    kept = disk.open(disk.root / "d" / "kept", create=True)
    disk.write(kept, 0, [b"kept"])
    disk.sync(kept)
    disk.sync_directory(disk.root / "d")
    disk.write(kept, 4, [b"?"])
    lost = disk.open(disk.root / "d" / "lost", create=True)
    disk.write(lost, 0, [bytes([1]) * MIB])
    images = [disk.image_after_power_cut(tmp_path / str(number)).root for number in range(1, 30)]
    assert {image.joinpath("d/kept").read_bytes() for image in images} == {b"kept", b"kept?"}
    contents = {path.read_bytes() for image in images for path in image.glob("d/lost")}
    assert len(contents) > 3
    assert not all(image.joinpath("d/lost").exists() for image in images)
    disk.close(kept)
    disk.close(lost)
