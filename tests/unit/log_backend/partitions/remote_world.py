"""A log whose older part is in a bucket alone, and a bucket that can be away."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from support.waiting import WAIT_SECONDS, until
from unit.log_backend.log_records import TIME, records
from unit.log_backend.open_store import SMALL, flushed, start_store

from routelog.log_backend.doors.disk import SystemDisk
from routelog.log_backend.log_store import LogStore
from routelog.log_backend.partitions.cursor import NO_CURSORS
from routelog.log_backend.partitions.partition_log import PartitionLog
from routelog.log_backend.remote.bucket import BucketFailed
from routelog.log_backend.remote.folder_bucket import FolderBucket, FolderObject
from routelog.log_backend.segments.retention import Retention
from routelog.log_backend.upkeep.remote_storage import EpochBeginning, RemoteStorage

COPIED = Retention(is_stream=True, is_remote=True)
LET_GO = replace(COPIED, local_bytes_max=0)
BODIES = [b"%05d" % number * 1_000 for number in range(100)]  # 8 segments of 64 KiB
SECOND = 1_000_000  # between two messages
OPTIONS = replace(SMALL, retention_seconds=3_600, has_remote=True)


class FickleBucket(FolderBucket):
    """A folder whose answers may be an error, or wait.

    Attributes:
        is_away: each call fails.
        opened: names of the contents that readers opened, in order.
        gate: reads of contents wait for it.
    """

    def __init__(self, root: Path) -> None:
        super().__init__(SystemDisk(), root)
        self.is_away = False
        self.opened: list[str] = []
        self.gate = threading.Event()
        self.gate.set()

    def objects(self, folder: str) -> Mapping[str, int]:
        """See `Bucket`."""
        self._answer()
        return super().objects(folder)

    def open(self, name: str) -> FolderObject:
        """See `Bucket`."""
        self._answer()
        if name.endswith(("log",)):
            self.opened.append(name.rpartition("/")[2])
            self.gate.wait(WAIT_SECONDS)
        return super().open(name)

    def _answer(self) -> None:
        if self.is_away:
            raise BucketFailed("no route to the bucket")


class World:
    """A broker's store, and its remote storage."""

    def __init__(self, data: Path, bucket: FolderBucket) -> None:
        self._data = data
        self.bucket = bucket
        self.epoch = 0
        self.store: LogStore
        self.log: PartitionLog
        self.remote: RemoteStorage | None = None

    def start(
        self,
        *,
        retention: Retention = COPIED,
        compression: str = "none",
        cursors: Mapping[int, int] = NO_CURSORS,
        memory_remote_bytes: int = 64 * 1024 * 1024,
    ) -> None:
        """Start a run; remote storage waits for `begin`."""
        self.epoch += 1
        self.store, (self.log,) = start_store(
            self._data,
            options=replace(OPTIONS, memory_remote_bytes=memory_remote_bytes),
            epoch=self.epoch,
            retention=retention,
            compression=compression,
            cursors=cursors,
        )

    def begin(self, address: str = "test") -> None:
        """Begin to copy, and to read."""
        store = self.store
        self.remote = RemoteStorage(
            store.shard,
            self.bucket,
            EpochBeginning.now(self.epoch, store.partitions, 2),
            reads=store.remote_reads,
            address=address,
            bytes_per_second=0,
        )
        self.remote.start(asyncio.get_running_loop())

    async def stop(self) -> None:
        """End the run."""
        if self.remote is not None:
            await self.remote.aclose()
            self.remote = None
        await self.store.aclose()

    async def publish(self, bodies: list[bytes]) -> None:
        """Have records in segments, and what is flushed in memory no more."""
        for body in bodies:
            time = TIME + self.log.next_offset * SECOND
            self.log.append(records([body], time=time), waited=True)
        await flushed(self.store)
        self.log.evict(1 << 30)

    async def copied(self) -> None:
        """Wait until all sealed segments are in the bucket."""
        end = self.log.segments[-1].base_offset
        await until(lambda: self.log.remote is not None and self.log.remote.end >= end)

    async def let_go(self) -> None:
        """Have all that was copied in the bucket alone."""
        await self.copied()
        self.log.retention = LET_GO
        self.log.expire()
        await until(lambda: not self.log.leaving)

    def content(self, number: int) -> Path:
        """The file of a segment's content."""
        remote = self.log.remote
        assert remote is not None
        return self.bucket._root / remote.folder / remote.segments[number].content_name


async def load(log: PartitionLog, offset: int) -> None:
    """Have a load end."""
    loaded = asyncio.Event()
    log.load(offset, loaded.set)
    async with asyncio.timeout(WAIT_SECONDS):
        await loaded.wait()


async def next_batch(log: PartitionLog, offset: int) -> tuple[int, list[bytes]]:
    """Where the batch at an offset ends, or that behind it, and its bodies from there on."""
    while (batch := log.read(offset)) is None:
        assert log.needs_load(offset), offset
        await load(log, offset)
    first = max(offset, batch.base_offset)
    offsets = range(first, batch.end_offset)
    return batch.end_offset, [bytes(batch.records.body(at - batch.base_offset)) for at in offsets]


async def read_from(log: PartitionLog, offset: int, end: int | None = None) -> list[bytes]:
    """Bodies from an offset on, as a reader of a stream goes through them."""
    found: list[bytes] = []
    end = log.visible_end if end is None else end
    while (offset := max(offset, log.lowest_offset)) < end:
        offset, bodies = await next_batch(log, offset)
        found += bodies
    return found
