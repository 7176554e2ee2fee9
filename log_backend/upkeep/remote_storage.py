"""Remote storage: copies sealed segments of some queues to a bucket in the background.

A copy stays in the bucket for as long as the queue's retention says; the segment may leave the disk earlier.
The names of the objects say all that is known of them, so nothing about them is stored elsewhere. One broker
or cluster owns the bucket's prefix, and its leader copies and removes.

A leader that was deposed may not know it yet, and its requests may arrive late. So none of them may undo what
a later leader does: names have the epoch, leftovers of later epochs and folders of queues that were declared
later are left alone, and what retention ends is removed behind a commit only (`Journal.told`).

A folder may be that of a share which is not mounted any more, so nothing that the bucket says, or takes, counts
unless OWNER is there before and behind it.
"""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import msgspec

from routelog.log_backend.doors.randomness import random_name
from routelog.log_backend.journal.metadata_writer import unawaited
from routelog.log_backend.loop.background import log_failure
from routelog.log_backend.loop.scheduler import Lane, in_turns
from routelog.log_backend.metadata.metadata import Change, MetadataUnavailable
from routelog.log_backend.partitions.partition_log import PartitionLog
from routelog.log_backend.partitions.remote_reads import EVERYTHING, RemoteReads
from routelog.log_backend.records.durability import Durability
from routelog.log_backend.remote.bucket import Bucket, BucketFailed, NoObject
from routelog.log_backend.remote.remote_log import RemoteLog, mark_change
from routelog.log_backend.remote.remote_segment import (
    FORMAT,
    OWNER,
    RemoteSegment,
    UnknownSegments,
    check_known,
    counting,
    leftovers,
    partition_folder,
    whole_segments,
)
from routelog.log_backend.segments.segment import Segment, SegmentDamaged
from routelog.log_backend.upkeep.segment_copy import CopyStopped, SegmentCopier
from routelog.log_backend.upkeep.shard import Shard

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0  # between two looks for sealed segments: a segment takes longer to fill
BACK_OFF_SECONDS_MAX = 60.0  # between two tries while the storage does not answer
_OWNER_KEY = b"remote-owner"
_ADDRESS_KEY = b"remote-address"  # of the bucket that has OWNER
_UNCHECKED_KEY = (
    b"remote-unchecked"  # an `EpochBeginning`, JSON, until its leader, or a later one, has checked
)

Result = TypeVar("Result")


@dataclass(frozen=True)
class EpochBeginning:
    """What there was when this node began to lead: all of it is committed.

    Attributes:
        ends: by number of each partition that keeps a log, or has kept one that was copied, its next offset.
        next_number: of the next partition.
    """

    epoch: int
    ends: Mapping[int, int]
    next_number: int

    @classmethod
    def now(
        cls, epoch: int, partitions: Mapping[int, PartitionLog], next_number: int
    ) -> "EpochBeginning":
        """Take what there is at this moment."""
        logs = [
            each
            for each in partitions.values()
            if each.durable and (each.keeps_log or each.has_copies)
        ]
        return cls(epoch, {each.number: each.next_offset for each in logs}, next_number)


def first_unchecked(shard: Shard, beginning: EpochBeginning) -> EpochBeginning:
    """Return the beginning of the first epoch in which nobody has checked yet what is in the bucket.

    Each leader asks before its log grows, with remote storage or without. Until one has checked, none copies:
    so what is in the bucket of this epoch, or behind its ends, is of a log that went on elsewhere. How far the
    log has come since then tells nothing.
    """
    noted = shard.metadata.get(_UNCHECKED_KEY)
    if noted is not None:
        return msgspec.json.decode(noted.value, type=EpochBeginning)
    if shard.metadata.get(_OWNER_KEY) is not None:  # else there was no bucket so far
        change = Change(_UNCHECKED_KEY, msgspec.json.encode(beginning))
        unawaited(shard.metadata_writer.submit([change]))
    return beginning


class RemoteStorage:
    """Copies segments, and removes copies whose retention has ended.

    Attributes:
        failure: why the storage cannot be used at present; empty: it can.

    Args:
        shard: whose partitions are copied, if their retention is remote.
        reads: they begin when the bucket is known to be this broker's.
        address: of the bucket, without secrets.
        bytes_per_second: of copying; 0: no limit.
    """

    def __init__(
        self,
        shard: Shard,
        bucket: Bucket,
        beginning: EpochBeginning,
        *,
        reads: RemoteReads,
        address: str,
        bytes_per_second: int,
    ) -> None:
        self.failure = ""
        self._shard = shard
        self._reads = reads
        self._address = address.encode()
        self._bucket = bucket
        self._beginning = beginning
        self._unchecked = first_unchecked(shard, beginning)
        self._stopping = threading.Event()
        self._copier = SegmentCopier(
            bucket,
            shard.disk,
            shard.clock,
            epoch=beginning.epoch,
            bytes_per_second=bytes_per_second,
            stopping=self._stopping,
        )
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="remote-storage")
        self._own = b""  # content of OWNER
        self._deleted_folders: list[str] = []  # of partitions that were deleted
        self._broken_off: PartitionLog | None = None  # its last copy failed
        self._task: asyncio.Task[None] | None = None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin: check who owns the bucket, list it, and copy what it lacks."""
        self._task = loop.create_task(self._run())
        self._task.add_done_callback(partial(log_failure, "remote storage stopped"))

    def stop(self) -> None:
        """Begin nothing more; the next leader copies a segment again whose copy is unfinished."""
        self._stopping.set()
        if self._task is not None:
            self._task.cancel()

    async def aclose(self) -> None:
        """Stop, and wait for the end of what is under way."""
        self.stop()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)
        await asyncio.to_thread(self._executor.shutdown)

    def removed(self, partition: PartitionLog) -> None:
        """Remove the copies of a partition whose deletion is durable."""
        is_wanted = partition.retention is not None and partition.retention.is_remote
        if is_wanted or partition.remote is not None:
            self._deleted_folders.append(partition_folder(partition.directory, partition.number))

    async def _run(self) -> None:
        try:
            entry = self._shard.metadata.get(_OWNER_KEY)
            own = bytes(entry.value) if entry is not None else random_name().encode()
            # Known or not: the journal has this epoch before an object has it, so no later leader has the same.
            await self._shard.metadata_writer.submit([Change(_OWNER_KEY, own)])
            self._own = FORMAT + own
            known = self._shard.metadata.get(_ADDRESS_KEY)
            address = None if known is None else bytes(known.value)
            self.failure = await self._persist(partial(self._claim, address))
            if self.failure:
                log.critical(
                    "remote storage is not used: %s, as %s says; give each broker a prefix of its own",
                    self.failure,
                    OWNER,
                )
                return
            if address != self._address:
                await self._shard.metadata_writer.submit([Change(_ADDRESS_KEY, self._address)])
            self._reads.open(self._bucket, self._known_segments, self._check_own)
            await self._persist(self._sweep)
            await self._shard.metadata_writer.submit([Change(_UNCHECKED_KEY, None)])
            while True:
                await self._persist(self._round)
                await asyncio.sleep(LOOK_SECONDS)
        except UnknownSegments as found:
            with suppress(MetadataUnavailable):
                await self._give_up(found)
        except MetadataUnavailable:
            pass  # the node stops

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

    async def _claim(self, address: bytes | None) -> str:
        """Be the owner of the prefix; returns why that cannot be, or nothing.

        Args:
            address: of the bucket that had OWNER last.
        """
        if address not in (None, self._address) and (unread := self._unread()):
            raise BucketFailed(
                f"groups have not read what only {address.decode()} has, the address of before, of "
                f"{unread}: give it back, or move these groups (`routelog reader move`)"
            )
        loop, is_known = asyncio.get_running_loop(), address == self._address
        owner = await loop.run_in_executor(self._executor, self._owned, is_known)
        if owner == self._own:
            return ""
        if owner.startswith(FORMAT):
            return "it belongs to another broker, or to this one before its data directory was made anew"
        return "it is of an unknown format"

    def _owned(self, is_known: bool) -> bytes:
        owner = self._owner()
        if owner is None and not is_known:
            self._bucket.write(OWNER, [self._own], len(self._own))
            owner = self._owner()  # perhaps of another broker, which found none, either
        if owner is None:  # not mounted: readers must not take what is in it for gone
            raise BucketFailed(f"{OWNER} is gone: this is not the bucket it was")
        return owner

    def _owner(self) -> bytes | None:
        with suppress(NoObject), closing(self._bucket.open(OWNER)) as found:
            return bytes(found.read(0, found.size))
        return None

    def _check_own(self) -> None:
        owner = self._owner()
        if owner != self._own:
            what = "gone" if owner is None else "another one"
            raise BucketFailed(f"{OWNER} is {what}: this is not the bucket it was")

    def _on_own(self, work: Callable[[], Result]) -> Result:
        """Do some work on the bucket; it counts if the bucket is this broker's before and behind it."""
        self._check_own()
        result = work()
        self._check_own()
        return result

    def _unread(self) -> str:
        # What groups have not read, and the disk does not have: in another bucket they would take it for gone.
        return ", ".join(
            f"{partition_folder(each.directory, each.number)} below offset {each.local_first}"
            for each in self._shard.partitions.values()
            if each.is_unlisted and each.has_groups_below(each.local_first)
        )

    async def _give_up(self, found: UnknownSegments) -> None:
        self.failure = str(found)
        # So that no later start takes them for its own. A leader that was deposed waits here for ever.
        await self._shard.metadata_writer.submit([Change(_OWNER_KEY, random_name().encode())])
        log.critical(
            "remote storage is not used any more: %s, as after a restore, a promotion or `cluster recover`; "
            "what is in it stays there, give this broker another prefix",
            found,
        )

    async def _sweep(self) -> None:
        """List the bucket; remove folders of queues that do not exist: a crash kept them from removal."""
        began, gone = self._unchecked, []
        for folder in await self._in_thread(self._folders):
            name = folder.rpartition("/")[2]
            if not name.isdecimal():
                continue
            number = int(name)
            partition = self._shard.partitions.get(number)
            if partition is not None and folder == partition_folder(partition.directory, number):
                await self._list_folder(partition)
                continue
            is_older = number < began.next_number
            end = began.ends.get(number, EVERYTHING if is_older else 0)
            await self._in_thread(partial(self._known, folder, end))
            if partition is None and is_older and number not in self._beginning.ends:
                gone.append(folder)
        for folder in gone:
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
        async for partition in in_turns([*self._shard.partitions.values()], Lane.UPKEEP):
            retention = partition.retention
            if not partition.closed and partition.durable and retention is not None:
                if retention.is_remote:
                    await self._copy(partition)
                if partition.remote is not None:
                    await self._expire(partition, partition.remote)

    async def _copy(self, partition: PartitionLog) -> None:
        remote = partition.remote
        if remote is None or partition is self._broken_off:
            remote = await self._list_folder(partition)
        for segment in self._copyable(partition):
            if segment.damaged or partition.closed or segment.next_base is None:
                return
            if segment.next_base > remote.end_from(segment.base_offset):
                if not await self._copied(partition, remote, segment):
                    return
                # What counts is what the bucket says.
                await self._list_folder(partition)
                partition.expire()

    def _copyable(self, partition: PartitionLog) -> list[Segment]:
        """The segments whose offsets no crash gives again, and no change of leader."""
        sealed = partition.sealed_segments()
        if self._shard.journal.is_replicated:
            return [] if partition.durability is Durability.MEMORY else sealed
        # The newest segment may be lost with a power cut: then the one before it is written on.
        return sealed if partition.durability is Durability.DISK else sealed[:-1]

    async def _list_folder(self, partition: PartitionLog) -> RemoteLog:
        remote = partition.remote
        if not (partition.has_copies or partition.closed):
            await self._shard.metadata_writer.submit([mark_change(partition.number)])
            partition.has_copies = True
        if remote is None:
            remote = RemoteLog(partition_folder(partition.directory, partition.number))
        own = None if partition.remote is None else self._beginning.epoch
        end = self._unchecked.ends.get(partition.number, 0)
        remote.listed(await self._in_thread(partial(self._found, remote.folder, end, own)))
        partition.remote = remote
        if partition is self._broken_off:
            self._broken_off = None
        return remote

    def _found(self, folder: str, end: int, own: int | None) -> list[RemoteSegment]:
        """List the folder of a partition, and remove what does not count.

        Args:
            end: where the partition ended when the first unchecked epoch began.
            own: this epoch, if something was copied in it.
        """
        objects = self._bucket.objects(folder)
        whole = whole_segments(objects)
        check_known(folder, whole, own, self._unchecked.epoch, end)
        segments = counting(whole)
        for name in leftovers(objects, segments, self._beginning.epoch):
            self._bucket.remove(f"{folder}/{name}")
        return segments

    def _known(self, folder: str, end: int) -> list[RemoteSegment]:
        """List a folder, in any thread, before anything was copied to it in this epoch; `end`: as above."""
        whole = whole_segments(self._bucket.objects(folder))
        check_known(folder, whole, None, self._unchecked.epoch, end)
        return counting(whole)

    def _known_segments(self, folder: str, number: int) -> list[RemoteSegment]:
        """List the folder of a partition for its readers."""
        end = self._unchecked.ends.get(number, 0)
        return self._on_own(partial(self._known, folder, end))

    async def _copied(self, partition: PartitionLog, remote: RemoteLog, segment: Segment) -> bool:
        try:
            await self._in_thread(partial(self._copier.copy, remote.folder, segment))
        except SegmentDamaged as error:
            if not partition.closed and segment in partition.segments:
                partition.quarantine_segment(segment, error)
        except FileNotFoundError:
            pass  # it was removed meanwhile
        except OSError as error:
            log.error("%s cannot be read, and is not copied yet: %s", segment.path, error)
        except CopyStopped:
            pass
        except BucketFailed:
            self._broken_off = partition  # what there is of the copy is removed before the next one
            raise
        else:
            return True
        return False

    async def _expire(self, partition: PartitionLog, remote: RemoteLog) -> None:
        retention = partition.retention
        assert retention is not None
        local = sum(
            each.file_bytes for each in partition.segments if each.base_offset >= remote.end
        )
        own, now = partition.open_cursor(), self._shard.clock.now()
        ended = partition.expire_remote(remote.ended(retention, local, own.low_water, now))
        if not ended or not await self._shard.journal.told():
            return  # perhaps another node leads, with other rules
        for segment in ended:
            for name in (segment.index_name, segment.content_name):  # in this order: see the format
                await self._in_thread(partial(self._bucket.remove, f"{remote.folder}/{name}"))
        partition.has_expired_remote(ended[-1].next_base)

    def _in_thread(self, work: Callable[[], Result]) -> asyncio.Future[Result]:
        return asyncio.get_running_loop().run_in_executor(self._executor, self._on_own, work)
