"""The stored part of a log, for readers outside of the broker: whole batches, as they are in segments.

Batches that are only in memory are not part of it: if they are settled before a flush they are never stored,
and a range that was read once must give the same records again.
"""

import asyncio
import os
import select
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple, TypeVar

from routelog.log_backend.doors.disk import Disk
from routelog.log_backend.partitions.partition_log import PartitionLog
from routelog.log_backend.records.record_batch import RecordBatch
from routelog.log_backend.segments.segment import SegmentDamaged, headers
from routelog.log_backend.segments.segment_file import SegmentFile, open_segment_file

THREADS = 4  # so that one slow file or socket does not delay all readers
PIECE_BYTES = 1024 * 1024  # read or sent at once: fits into a processor's cache
TURN_BYTES = 16 * PIECE_BYTES  # a thread sends for one reader before it serves the next: some 10 ms
# How long a thread waits for room in a socket. A reader on this machine makes room in less, and going back to
# the event loop costs as much as sending 1 MiB.
ROOM_MILLISECONDS = 2
PLANS_MAX = 3  # tries of one request: a segment may be removed before it is opened

Result = TypeVar("Result")


class StoredExtent(NamedTuple):
    """A segment's offsets [start, end), and its size on the disk."""

    start: int
    end: int
    bytes: int


@dataclass(frozen=True, slots=True)
class _Plan:
    """A range of offsets [start, end) within one segment, and where in its file to look for them."""

    path: Path
    start: int
    end: int
    position: int  # of a batch at or before `start`
    lowest: int  # the lowest base offset of that batch
    tail_position: int  # of a batch at or before `end`
    tail_lowest: int
    size: int


class StoredStretch:
    """Adjacent whole batches of a segment, open for reading; `close` it.

    Attributes:
        start, end: all stored records with offsets in [start, end) are in it.
        position, size: where in the segment it lies.
    """

    def __init__(self, file: SegmentFile, start: int, end: int, position: int, size: int) -> None:
        self.start, self.end = start, end
        self.position, self.size = position, size
        self._file = file

    @property
    def descriptor(self) -> int | None:
        """Of the file, in which the bytes have the same positions; None if it is compressed."""
        return self._file.plain

    def read(self, at: int, size: int) -> bytearray:
        """Bytes from a position on."""
        return self._file.read(at, size)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class StoredLogs:
    """Reads segments in its own threads, so that consumers of the broker do not wait for these readers."""

    def __init__(self, disk: Disk, loop: asyncio.AbstractEventLoop) -> None:
        self._disk = disk
        self._loop = loop
        self._executor = ThreadPoolExecutor(THREADS, thread_name_prefix="log-service")

    def close(self) -> None:
        """End the threads after the work that they have begun."""
        self._executor.shutdown(wait=True)

    def extents(self, log: PartitionLog) -> list[StoredExtent]:
        """The stored segments, oldest first; if there is none, one empty extent where the log begins."""
        stored = [each for each in log.segments if each.written_size]
        if not stored:
            begin = min(log.local_first, log.visible_end)
            return [StoredExtent(begin, begin, 0)]
        ends = [each.base_offset for each in stored[1:]] + [stored[-1].written_end]
        return [
            StoredExtent(each.base_offset, end, each.file_bytes)
            for each, end in zip(stored, ends, strict=True)
        ]

    async def find(
        self, log: PartitionLog, start: int, end: int, bytes_max: int
    ) -> StoredStretch | None:
        """Open the beginning of a range of offsets: about `bytes_max` of one segment.

        Returns:
            A stretch from `start` on, or from the first stored offset behind it; None if nothing is stored in
            [start, end).

        Raises:
            SegmentDamaged: a header fails a check.
            FileNotFoundError: segments are removed faster than they can be opened.
        """

        async def stretch() -> StoredStretch | None:
            plan = _planned(log, start, end, bytes_max)
            if plan is None:
                return None
            return await self.run(partial(_opened, self._disk, plan))

        return await self._planned_again(stretch)

    async def _planned_again(self, work: Callable[[], Coroutine[None, None, Result]]) -> Result:
        """Do work that plans where to read, again if a segment was removed or replaced meanwhile."""
        for _ in range(PLANS_MAX - 1):
            with suppress(FileNotFoundError):
                return await work()
        return await work()

    async def offset_at(self, log: PartitionLog, time: int) -> int | None:
        """Base offset of the first stored batch that was received at a time (us since 1970) or later.

        Raises:
            FileNotFoundError: segments are removed faster than they can be opened.
        """
        return await self._planned_again(lambda: self._offset_at(log, time))

    async def _offset_at(self, log: PartitionLog, time: int) -> int | None:
        stored = [each for each in log.segments if each.written_size]
        later = next((i for i, each in enumerate(stored) if each.first_time >= time), len(stored))
        for segment in stored[max(later - 1, 0) :]:
            nearby = segment.position_of(segment.offset_at(time))
            lowest = segment.lowest_offset_at(nearby)
            work = partial(
                _first_since, self._disk, segment.path, nearby, segment.written_size, lowest, time
            )
            found = await self.run(work)
            if found is not None:
                return found
        return None

    async def body_sizes(
        self, log: PartitionLog, start: int, end: int, bytes_max: int
    ) -> list[tuple[int, int, int]]:
        """Base offset, end offset and bytes of bodies of each batch in a range of offsets of one segment.

        The list ends when the bodies of its whole batches, without the last one, exceed `bytes_max`, so that a
        caller can tell which batch is the first that does not fit. Empty if nothing is stored there.
        """

        async def sizes() -> list[tuple[int, int, int]]:
            plan = _planned(log, start, end, None)
            if plan is None:
                return []
            return await self.run(partial(_body_sizes, self._disk, plan, bytes_max))

        return await self._planned_again(sizes)

    async def pieces(self, stretch: StoredStretch) -> AsyncIterator[bytearray]:
        """The bytes of a stretch, a piece at a time."""
        position, end = stretch.position, stretch.position + stretch.size
        while position < end:
            size = min(PIECE_BYTES, end - position)
            yield await self.run(partial(stretch.read, position, size))
            position += size

    async def send(self, stretch: StoredStretch, descriptor: int, sent: int, socket: int) -> int:
        """Send bytes of a stretch with `sendfile`: TURN_BYTES, or fewer if the socket has no more room.

        Args:
            sent: bytes of the stretch that were sent before.
            socket: a non-blocking one.

        Returns:
            How many bytes were sent now.
        """
        count = min(stretch.size - sent, TURN_BYTES)
        position = stretch.position + sent
        return await self.run(partial(_sent, socket, descriptor, position, count))

    def run(self, work: Callable[[], Result]) -> asyncio.Future[Result]:
        """Run work in a thread, and return its result."""
        return self._loop.run_in_executor(self._executor, work)


def _planned(log: PartitionLog, start: int, end: int, bytes_max: int | None) -> _Plan | None:
    stored = [each for each in log.segments if each.written_size]
    for segment, behind in zip_longest(stored, stored[1:]):
        reach = segment.written_end if behind is None else behind.base_offset
        if reach <= start:
            continue
        start = max(start, segment.base_offset)
        end = min(end, reach)
        if start >= end:
            return None
        position = segment.position_of(start)
        if bytes_max is not None:
            cap = segment.lowest_offset_at(position + bytes_max)
            if start < cap < end:
                end = cap
        tail = segment.position_of(end)
        return _Plan(
            segment.path,
            start,
            end,
            position,
            segment.lowest_offset_at(position),
            tail,
            segment.lowest_offset_at(tail),
            segment.written_size,
        )
    return None


def _opened(disk: Disk, plan: _Plan) -> StoredStretch:
    file = open_segment_file(disk, plan.path)
    try:
        first = _first_batch(
            file, plan.position, plan.size, plan.lowest, lambda batch: batch.end_offset > plan.start
        )
        from_tail = plan.tail_position > first
        behind = _first_batch(
            file,
            plan.tail_position if from_tail else first,
            plan.size,
            plan.tail_lowest if from_tail else plan.lowest,
            lambda batch: batch.base_offset >= plan.end,
        )
    except BaseException:
        file.close()
        raise
    return StoredStretch(file, plan.start, plan.end, first, behind - first)


def _first_batch(
    file: SegmentFile, position: int, end: int, lowest: int, wanted: Callable[[RecordBatch], bool]
) -> int:
    """Position of the first batch that is wanted; `end` if none is."""
    for batch, at, _ in headers(file, position, end, lowest):
        if wanted(batch):
            return at
    return end


def _first_since(
    disk: Disk, path: Path, position: int, size: int, lowest: int, time: int
) -> int | None:
    for batch in _batches(disk, path, position, size, lowest):
        if batch.records.time >= time:
            return batch.base_offset
    return None


def _body_sizes(disk: Disk, plan: _Plan, bytes_max: int) -> list[tuple[int, int, int]]:
    found: list[tuple[int, int, int]] = []
    total = last = 0
    for batch in _batches(disk, plan.path, plan.position, plan.size, plan.lowest):
        if batch.base_offset >= plan.end or total - last > bytes_max:
            break
        if batch.end_offset > plan.start:
            size = batch.records.bodies_bytes
            # Of a batch that begins before the range, how much lies within it is not known here.
            last = size if batch.base_offset >= plan.start else 0
            total += last
            found.append((batch.base_offset, batch.end_offset, size))
    return found


def _batches(
    disk: Disk, path: Path, position: int, size: int, lowest: int
) -> Iterator[RecordBatch]:
    with closing(open_segment_file(disk, path)) as file:
        for batch, _, _ in headers(file, position, size, lowest):
            yield batch


def _sent(socket: int, descriptor: int, position: int, count: int) -> int:
    done = 0
    while done < count:
        try:
            size = os.sendfile(socket, descriptor, position + done, min(PIECE_BYTES, count - done))
        except BlockingIOError:
            if not _has_room_soon(socket):
                break
            continue
        if size == 0:
            raise SegmentDamaged(Path(str(descriptor)), position + done, "the file is cut off")
        done += size
    return done


def _has_room_soon(socket: int) -> bool:
    waiting = select.poll()
    waiting.register(socket, select.POLLOUT)
    return bool(waiting.poll(ROOM_MILLISECONDS))
