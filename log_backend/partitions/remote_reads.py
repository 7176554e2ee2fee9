"""Reads of records that only remote storage has, in threads of their own: they wait for the network.

While the storage does not answer, who asked waits, and the read is tried again. Reads of the disk, and of
memory, go on meanwhile.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Protocol, TypeVar

from routelog.log_backend.doors.clock import Clock
from routelog.log_backend.partitions.remote_pieces import RemotePieces
from routelog.log_backend.records.record_batch import RecordBatch
from routelog.log_backend.remote.bucket import Bucket, BucketFailed, NoObject
from routelog.log_backend.remote.remote_log import RemoteLog
from routelog.log_backend.remote.remote_piece import (
    PieceDamaged,
    RemoteCopy,
    read_index,
    read_piece,
)
from routelog.log_backend.remote.remote_segment import (
    RemoteSegment,
    UnknownSegments,
    partition_folder,
)
from routelog.log_backend.segments.segment import Segment

log = logging.getLogger(__name__)

THREADS = 2  # so that one slow request does not delay all others
INDEXES_BYTES_MAX = 1024 * 1024  # of some forty segments of 64 MiB
INDEX_BYTES = 512  # of memory, for one without entries
INDEX_ENTRY_BYTES = 24
RETRY_SECONDS, RETRY_SECONDS_MAX = 1.0, 60.0  # between two tries of one read
EVERYTHING = 2**63 - 1

Result = TypeVar("Result")
Listing = Callable[[str, int], list[RemoteSegment]]


class RemotelyRead(Protocol):
    """A partition's log, as these reads see it."""

    number: int
    closed: bool
    remote: RemoteLog | None

    @property
    def directory(self) -> Path:
        """Of its files on the disk."""

    def is_remote(self, offset: int) -> bool:
        """Whether remote storage is where to look for an offset."""


class _Read:
    """A read under way; `waiting` is called at its end.

    It brings what lies in the offsets [first, end), or a part of it: who waits looks again, and asks again. One
    that brings `index`, that of a segment, or a list (None), is of no offset.
    """

    __slots__ = ("end", "first", "index", "is_failing", "task", "waiting")

    def __init__(self, first: int, end: int, index: RemoteSegment | None = None) -> None:
        self.first = first
        self.end = end
        self.index = index
        self.is_failing = False
        self.task: asyncio.Task[None] | None = None
        self.waiting: dict[Callable[[], None], None] = {}


class RemoteReads:
    """All partitions' reads of remote storage.

    Attributes:
        failure: why reads wait for the storage; empty: none does.
        unused: why no read begins, until `open`.
        requests: of pieces, so far.
        pieces: what was read.

    Args:
        bytes_max: of pieces.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock, bytes_max: int) -> None:
        self.requests = 0
        self.pieces = RemotePieces(bytes_max, clock.monotonic)
        self._loop = loop
        self.unused = "it is not used so far"
        self._error = ""
        self._bucket: Bucket | None = None
        self._list: Listing | None = None
        self._check_own: Callable[[], None] | None = None
        self._opened = asyncio.Event()
        self._executor = ThreadPoolExecutor(THREADS, thread_name_prefix="remote-reader")
        self._reads: dict[int, list[_Read]] = {}  # by partition
        self._indexes: OrderedDict[str, Segment] = OrderedDict()  # least recently used first
        self._indexes_bytes = 0

    def open(self, bucket: Bucket, listing: Listing, check_own: Callable[[], None]) -> None:
        """Begin: the bucket is this broker's.

        Args:
            listing: the segments of a partition, by folder and number; it blocks.
            check_own: it blocks, and raises BucketFailed if the bucket is not this broker's any more.
        """
        self._bucket, self._list, self._check_own = bucket, listing, check_own
        self._opened.set()

    async def aclose(self) -> None:
        """Cancel what waits, and wait for requests under way."""
        tasks = [each.task for reads in self._reads.values() for each in reads if each.task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.to_thread(self._executor.shutdown)

    @property
    def failure(self) -> str:
        """See the class."""
        if not self._reads:
            return ""
        return self._error if self._opened.is_set() else self.unused

    def is_failing(self, partition: RemotelyRead, offset: int) -> bool:
        """Whether a read of an offset is under way that waits for the storage to answer again."""
        read = self._under_way(partition, offset)
        return read is not None and (read.is_failing or not self._opened.is_set())

    # -- what is in memory

    def find(self, partition: RemotelyRead, offset: int) -> tuple[int, RecordBatch | None]:
        """The batch that holds an offset of remote storage, or the next one.

        Returns:
            The offset and the batch. Without one, the offset from which on nobody knows: up to there, no record
            was stored. It may be one that is not in remote storage.
        """
        while partition.is_remote(offset):
            piece = self.pieces.find(partition.number, offset)
            if piece is None:
                break
            if self.pieces.use(piece):
                self._read_ahead(partition, piece.end)
            batch: RecordBatch | None = piece.tail.find(offset)
            if batch is not None:
                return offset, batch
            offset = piece.end
        return offset, None

    def index(self, partition: RemotelyRead, segment: RemoteSegment) -> Segment | None:
        """The index of a segment, if it is in memory."""
        assert partition.remote is not None
        name = f"{partition.remote.folder}/{segment.content_name}"
        found = self._indexes.get(name)
        if found is not None:
            self._indexes.move_to_end(name)
        return found

    def forget(self, partition: RemotelyRead) -> None:
        """Forget a partition that is closed; who waits is told in a later turn of the event loop."""
        for read in self._reads.pop(partition.number, ()):
            assert read.task is not None
            read.task.add_done_callback(partial(_tell, read))
            read.task.cancel()
        if not self._any_failing():
            self._error = ""
        self.pieces.forget(partition.number)

    # -- reading

    def load(self, partition: RemotelyRead, offset: int, done: Callable[[], None]) -> None:
        """Read the records at an offset into memory, or what is needed to find them, and call `done`.

        The caller then looks again, and loads again if needed; so when the partition is closed.
        """
        read = self._under_way(partition, offset) or self._begin(partition, offset)
        read.waiting[done] = None

    def locate(
        self, partition: RemotelyRead, segment: RemoteSegment | None
    ) -> asyncio.Future[None]:
        """Read the index of a segment, or list them all; it is cancelled when the partition is closed.

        Who cancels it waits no more; others do.
        """
        reads = self._reads.get(partition.number, ())
        located = (each for each in reads if not each.end and each.index == segment)
        read = next(located, None)
        if read is None:
            work = partial(self._bring_index, partition, segment)
            read = self._start(partition, _Read(0, 0, segment), work)
        assert read.task is not None
        return asyncio.shield(read.task)

    def _under_way(self, partition: RemotelyRead, offset: int) -> _Read | None:
        reads = self._reads.get(partition.number, ())
        return next((each for each in reads if each.first <= offset < each.end), None)

    def _begin(self, partition: RemotelyRead, offset: int) -> _Read:
        remote = partition.remote
        segment = None if remote is None else remote.segment_of(offset)
        first, end = offset, EVERYTHING
        if remote is None:
            first = 0  # a list is for all
        if segment is not None:
            end = segment.next_base
            index = self.index(partition, segment)
            if index is not None:
                target = index.position_of(offset) + self.pieces.request_bytes
                if target < index.size:
                    end = max(index.lowest_offset_at(target), offset + 1)
        return self._start(
            partition, _Read(first, end), partial(self._bring_piece, partition, offset)
        )

    def _read_ahead(self, partition: RemotelyRead, offset: int) -> None:
        if (
            self.pieces.may_read_ahead
            and partition.is_remote(offset)
            and self.pieces.find(partition.number, offset) is None
            and self._under_way(partition, offset) is None
        ):
            self._begin(partition, offset)

    def _start(
        self, partition: RemotelyRead, read: _Read, work: Callable[[], Awaitable[None]]
    ) -> _Read:
        self._reads.setdefault(partition.number, []).append(read)
        read.task = self._loop.create_task(self._persist(partition, read, work))
        return read

    async def _persist(
        self, partition: RemotelyRead, read: _Read, work: Callable[[], Awaitable[None]]
    ) -> None:
        seconds = RETRY_SECONDS
        await self._opened.wait()
        while not partition.closed:
            try:
                await work()
            except Exception as error:
                self._failed(read, error)
                await asyncio.sleep(seconds)
                seconds = min(2 * seconds, RETRY_SECONDS_MAX)
            else:
                break
        self._end(partition, read)

    def _failed(self, read: _Read, error: Exception) -> None:
        if not self._error:
            is_bug = not isinstance(error, (BucketFailed, UnknownSegments))
            text = "readers wait for remote storage, which is tried again: %s"
            log.error(text, error, exc_info=error if is_bug else None)
        self._error = str(error)
        read.is_failing = True

    def _end(self, partition: RemotelyRead, read: _Read) -> None:
        reads = self._reads.get(partition.number, [])
        if read in reads:
            reads.remove(read)
        if not reads:
            self._reads.pop(partition.number, None)
        if self._error and not self._any_failing():
            log.info("remote storage answers its readers again")
            self._error = ""
        _tell(read)

    def _any_failing(self) -> bool:
        return any(each.is_failing for each in chain.from_iterable(self._reads.values()))

    # -- what a read does

    async def _bring_piece(self, partition: RemotelyRead, offset: int) -> None:
        if partition.remote is None:
            await self._bring_list(partition)
        remote = partition.remote
        if remote is None or not partition.is_remote(offset):
            return  # it is on the disk only, or retention has removed it meanwhile
        copies = [
            RemoteCopy(each, self.index(partition, each)) for each in remote.copies_of(offset)
        ]
        if (
            not copies
        ):  # nobody stored the offset, or retention removed it: the next segment follows
            segment = remote.segment_of(offset)
            if segment is None:
                return
            copies = [RemoteCopy(segment, self.index(partition, segment))]
        assert self._bucket is not None
        self.requests += 1
        size = self.pieces.request_bytes
        work = partial(read_piece, self._bucket, remote.folder, copies, offset, size)
        try:
            piece = await self._in_thread(work)
        except PieceDamaged as error:
            if not partition.closed:
                self._quarantine(remote, error)
        except NoObject:
            await self._look_for(remote, [each.segment for each in copies])
        else:
            if not partition.closed:
                self._keep_index(f"{remote.folder}/{piece.copy.content_name}", piece.index)
                self.pieces.add(partition.number, piece.first, piece.end, piece.batches)

    async def _bring_index(self, partition: RemotelyRead, segment: RemoteSegment | None) -> None:
        if partition.remote is None:
            await self._bring_list(partition)
        remote = partition.remote
        if remote is None or segment is None:
            return
        assert self._bucket is not None
        work = partial(read_index, self._bucket, remote.folder, segment, self.pieces.request_bytes)
        with suppress(NoObject):
            index = await self._in_thread(work)
            if index is not None:
                self._keep_index(f"{remote.folder}/{segment.content_name}", index)

    async def _bring_list(self, partition: RemotelyRead) -> None:
        assert self._list is not None
        folder = partition_folder(partition.directory, partition.number)
        try:
            segments = await self._in_thread(partial(self._list, folder, partition.number))
        except UnknownSegments:
            # Perhaps what was copied since it was asked for: then somebody else has listed it.
            if partition.remote is None:
                raise
        else:
            if partition.remote is None:
                partition.remote = RemoteLog(folder, segments)

    async def _look_for(self, remote: RemoteLog, segments: list[RemoteSegment]) -> None:
        """Forget segments whose objects are gone."""
        for segment in segments:
            is_gone = await self._in_thread(partial(self._is_gone, remote.folder, segment))
            if is_gone and segment in remote.segments:
                name = f"{remote.folder}/{segment.content_name}"
                log.warning("%s is gone: readers go on behind it", name)
                remote.lost(segment)

    def _is_gone(self, folder: str, segment: RemoteSegment) -> bool:
        assert self._bucket is not None
        assert self._check_own is not None
        self._check_own()
        try:
            for name in (segment.content_name, segment.index_name):
                self._bucket.open(f"{folder}/{name}").close()
        except NoObject:
            self._check_own()
            return True
        return False

    def _quarantine(self, remote: RemoteLog, error: PieceDamaged) -> None:
        log.error("quarantined: %s: %s", remote.folder, error)
        # Another copy may begin behind the damage
        begins = (each.base_offset for each in remote.segments)
        end = min((each for each in begins if error.first < each < error.end), default=error.end)
        remote.damaged.append((error.first, end))

    def _keep_index(self, name: str, index: Segment) -> None:
        before = self._indexes.pop(name, None)
        self._indexes_bytes += _bytes_of(index) - (_bytes_of(before) if before else 0)
        self._indexes[name] = index
        while self._indexes_bytes > INDEXES_BYTES_MAX and len(self._indexes) > 1:
            _, oldest = self._indexes.popitem(last=False)
            self._indexes_bytes -= _bytes_of(oldest)

    def _in_thread(self, work: Callable[[], Result]) -> asyncio.Future[Result]:
        return self._loop.run_in_executor(self._executor, work)


def _tell(read: _Read, task: asyncio.Task[None] | None = None) -> None:
    for done in read.waiting:
        done()


def _bytes_of(index: Segment) -> int:
    return INDEX_BYTES + INDEX_ENTRY_BYTES * index.index_entries
