"""Remote storage: copies sealed segments of some queues to a bucket in the background.

A copy stays in the bucket for as long as the queue's retention says; the segment may leave the disk earlier.
The names of the objects say all that is known of them, so nothing about them is stored elsewhere. One broker
owns the bucket's prefix, and removes objects of partitions that it does not have.
"""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from functools import partial
from typing import TypeVar

from routelog.log_backend.doors.clock import Clock
from routelog.log_backend.doors.disk import Disk
from routelog.log_backend.doors.randomness import random_name
from routelog.log_backend.loop.background import log_failure
from routelog.log_backend.loop.scheduler import Lane, in_turns
from routelog.log_backend.metadata.metadata import Change, MetadataStore
from routelog.log_backend.partitions.partition_log import PartitionLog
from routelog.log_backend.remote.bucket import Bucket, BucketFailed, NoObject
from routelog.log_backend.remote.remote_log import RemoteLog
from routelog.log_backend.remote.remote_segment import (
    OWNER,
    RemoteSegment,
    leftovers,
    partition_folder,
    stored_segments,
)
from routelog.log_backend.segments.segment import Segment, SegmentDamaged
from routelog.log_backend.upkeep.segment_copy import CopyStopped, SegmentCopier

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0  # between two looks for sealed segments: a segment takes longer to fill
BACK_OFF_SECONDS_MAX = 60.0  # between two tries while the storage does not answer
_OWNER_KEY = b"remote-owner"

Result = TypeVar("Result")


class RemoteStorage:
    """Copies segments, and removes copies whose retention has ended.

    Attributes:
        failure: why the storage cannot be used at present; empty: it can.

    Args:
        partitions: by number; those whose retention is remote are copied.
        bytes_per_second: of copying; 0: no limit.
    """

    def __init__(
        self,
        bucket: Bucket,
        partitions: Mapping[int, PartitionLog],
        metadata: MetadataStore,
        disk: Disk,
        clock: Clock,
        *,
        bytes_per_second: int,
    ) -> None:
        self.failure = ""
        self._bucket = bucket
        self._partitions = partitions
        self._metadata = metadata
        self._clock = clock
        self._stopping = threading.Event()
        self._copier = SegmentCopier(
            bucket, disk, clock, bytes_per_second=bytes_per_second, stopping=self._stopping
        )
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="remote-storage")
        self._deleted_folders: list[str] = []  # of partitions that were deleted
        self._task: asyncio.Task[None] | None = None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin: check who owns the bucket, list it, and copy what it lacks."""
        self._task = loop.create_task(self._run())
        self._task.add_done_callback(partial(log_failure, "remote storage stopped"))

    async def aclose(self) -> None:
        """Stop; the next run copies a segment again whose copy is unfinished."""
        self._stopping.set()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await asyncio.to_thread(self._executor.shutdown)

    def removed(self, partition: PartitionLog) -> None:
        """Remove the copies of a partition whose deletion is durable."""
        is_wanted = partition.retention is not None and partition.retention.is_remote
        if is_wanted or partition.remote is not None:
            self._deleted_folders.append(partition_folder(partition.directory, partition.number))

    async def _run(self) -> None:
        if not await self._persist(self._claim):
            return
        await self._persist(self._sweep)
        while True:
            await self._persist(self._round)
            await asyncio.sleep(LOOK_SECONDS)

    async def _persist(self, work: Callable[[], Awaitable[Result]]) -> Result:
        """Do some work, and repeat it until the storage does not fail."""
        seconds = LOOK_SECONDS
        while True:
            try:
                result = await work()
            except BucketFailed as error:
                if not self.failure:
                    log.error("remote storage fails, and is tried again: %s", error)
                self.failure = str(error)
                await asyncio.sleep(seconds)
                seconds = min(2 * seconds, BACK_OFF_SECONDS_MAX)
                continue
            if self.failure:
                log.info("remote storage answers again")
                self.failure = ""
            return result

    # -- ownership of the bucket

    async def _claim(self) -> bool:
        entry = self._metadata.get(_OWNER_KEY)
        if entry is None:
            own = random_name().encode()
            await self._in_thread(partial(self._metadata.apply, [Change(_OWNER_KEY, own)]))
        else:
            own = bytes(entry.value)
        owner = await self._in_thread(partial(self._owned, own))
        if owner == own:
            return True
        self.failure = "it belongs to another broker"
        log.critical(
            "remote storage is not used: %s in it names another broker, or this one before its data directory "
            "was made anew; give each broker a prefix of its own",
            OWNER,
        )
        return False

    def _owned(self, own: bytes) -> bytes:
        with suppress(NoObject), closing(self._bucket.open(OWNER)) as found:
            return bytes(found.read(0, found.size))
        self._bucket.write(OWNER, [own], len(own))
        return own

    async def _sweep(self) -> None:
        """List the bucket; remove folders of queues that do not exist: a crash kept them from removal."""
        for folder in await self._in_thread(self._folders):
            number = folder.rpartition("/")[2]
            partition = self._partitions.get(int(number)) if number.isdecimal() else None
            if partition is not None:
                await self._look(partition)
            elif number.isdecimal():
                log.info("remote storage: removing %s, which is of no queue", folder)
                await self._in_thread(partial(self._bucket.remove_folder, folder))

    def _folders(self) -> list[str]:
        bucket = self._bucket
        queues = [
            f"{vhost}/{queue}" for vhost in bucket.folders("") for queue in bucket.folders(vhost)
        ]
        return [f"{queue}/{number}" for queue in queues for number in bucket.folders(queue)]

    # -- copying

    async def _round(self) -> None:
        while self._deleted_folders:
            await self._in_thread(partial(self._bucket.remove_folder, self._deleted_folders[0]))
            self._deleted_folders.pop(0)
        async for partition in in_turns(self._partitions.values(), Lane.UPKEEP):
            retention = partition.retention
            if not partition.closed and partition.durable and retention is not None:
                if retention.is_remote:
                    await self._copy(partition)
                if partition.remote is not None:
                    await self._expire(partition, partition.remote)

    async def _copy(self, partition: PartitionLog) -> None:
        remote = partition.remote or await self._look(partition)
        for segment in partition.sealed_segments():
            if segment.damaged or partition.closed:
                return
            if segment.next_base is not None and segment.next_base > remote.end:
                copied = await self._copied(partition, remote, segment)
                if copied is None:
                    return
                remote.add(copied)
                partition.expire()

    async def _look(self, partition: PartitionLog) -> RemoteLog:
        folder = partition_folder(partition.directory, partition.number)
        found = await self._in_thread(partial(self._found, folder))
        partition.remote = RemoteLog(folder, found)
        return partition.remote

    def _found(self, folder: str) -> list[RemoteSegment]:
        objects = self._bucket.objects(folder)
        segments = stored_segments(objects)
        for name in leftovers(objects, segments):
            self._bucket.remove(f"{folder}/{name}")
        return segments

    async def _copied(
        self, partition: PartitionLog, remote: RemoteLog, segment: Segment
    ) -> RemoteSegment | None:
        replaced = remote.last_from(segment.base_offset)
        copy = partial(self._copier.copy, remote.folder, segment, replaced)
        try:
            return await self._in_thread(copy)
        except SegmentDamaged as error:
            if not partition.closed and segment in partition.segments:
                partition.quarantine_segment(segment, error)
        except FileNotFoundError:
            pass  # it was removed meanwhile
        except OSError as error:
            log.error("%s cannot be read, and is not copied yet: %s", segment.path, error)
        except CopyStopped:
            pass
        return None

    async def _expire(self, partition: PartitionLog, remote: RemoteLog) -> None:
        retention = partition.retention
        assert retention is not None
        local = sum(
            each.file_bytes for each in partition.segments if each.base_offset >= remote.end
        )
        count = remote.ended(retention, local, partition.low_water(), self._clock.now())
        for segment in remote.segments[:count]:
            for name in (segment.index_name, segment.content_name):  # in this order: see the format
                await self._in_thread(partial(self._bucket.remove, f"{remote.folder}/{name}"))
        remote.drop(count)

    def _in_thread(self, work: Callable[[], Result]) -> asyncio.Future[Result]:
        return asyncio.get_running_loop().run_in_executor(self._executor, work)
