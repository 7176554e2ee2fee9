"""What of a log is in segments, for readers outside of the broker: whole batches, as they are stored.

What is still in memory alone is not part of it: messages that are settled before they are flushed are
never stored, and a range that was read once has to give the same records again.
"""

import asyncio
import os
import select
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
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

THREADS = 4  # one slow file does not keep all readers waiting; nor does a socket, for long
PIECE_BYTES = 1024 * 1024  # read or sent at once: stays in a processor's cache on its way
TURN_BYTES = 16 * PIECE_BYTES  # sent by a thread before others get it: some 10 ms
# A reader on this machine makes room in less, and a way over the event loop costs as much as 1 MiB does.
ROOM_MILLISECONDS = 2
PLANS_MAX = 3  # of one request: each time a segment was removed meanwhile, and the log begins later

Result = TypeVar("Result")


class StoredExtent(NamedTuple):
    """A segment's offsets [start, end), and what it takes on the disk."""

    start: int
    end: int
    bytes: int


@dataclass(frozen=True, slots=True)
class _Plan:
    """Where in a segment to look for offsets [start, end): nothing of them lies elsewhere before `end`."""

    path: Path
    start: int
    end: int
    position: int  # of a batch at or before `start`, which begins at `lowest` or behind it
    lowest: int
    tail_position: int  # of a batch at or before `end`
    tail_lowest: int
    size: int


class StoredStretch:
    """Neighbouring whole batches of a segment, open for reading; `close` it.

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
        """Of the file that has these bytes at these positions; None when it is compressed."""
        return self._file.plain

    def read(self, at: int, size: int) -> bytearray:
        """Bytes from a position on."""
        return self._file.read(at, size)

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


class StoredLogs:
    """Reads segments in threads of its own: consumers of the broker do not wait for these readers."""

    def __init__(self, disk: Disk, loop: asyncio.AbstractEventLoop) -> None:
        self._disk = disk
        self._loop = loop
        self._executor = ThreadPoolExecutor(THREADS, thread_name_prefix="log-service")

    def close(self) -> None:
        """End the threads when they have done what they do."""
        self._executor.shutdown(wait=True)

    def extents(self, log: PartitionLog) -> list[StoredExtent]:
        """What is stored, oldest first; one that is empty where the log begins when nothing is."""
        stored = [each for each in log.segments if each.written_size]
        if not stored:
            begin = min(log.first_offset, log.visible_end)
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
            What covers offsets from `start` on, or from later if those before are not stored; None
            when nothing is stored at `start` or behind it, up to `end`.

        Raises:
            SegmentDamaged: where a batch has to be is none.
            FileNotFoundError: segments are removed faster than they can be opened.
        """
        for attempt in range(PLANS_MAX):
            plan = _planned(log, start, end, bytes_max)
            if plan is None:
                return None
            try:
                return await self.run(partial(_opened, self._disk, plan))
            except FileNotFoundError:
                if attempt == PLANS_MAX - 1:
                    raise
        return None

    async def offset_at(self, log: PartitionLog, time: int) -> int | None:
        """The first stored offset of a batch that came in at a time (us since 1970) or later."""
        stored = [each for each in log.segments if each.written_size]
        later = next((i for i, each in enumerate(stored) if each.first_time >= time), len(stored))
        for segment in stored[max(later - 1, 0) :]:
            nearby = segment.position_of(segment.offset_at(time))
            lowest = segment.lowest_offset_at(nearby)
            work = partial(
                _first_since, self._disk, segment.path, nearby, segment.written_size, lowest, time
            )
            try:
                found = await self.run(work)
            except FileNotFoundError:
                continue  # retention took it meanwhile
            if found is not None:
                return found
        return None

    async def body_sizes(
        self, log: PartitionLog, start: int, end: int, bytes_max: int
    ) -> list[tuple[int, int, int]]:
        """Base offset, end offset and size of the bodies of the batches that hold a range of one segment.

        Bodies of all but the last two are at most `bytes_max` altogether: which is the first that does not
        fit at all can be told. Empty when nothing is stored there.
        """
        plan = _planned(log, start, end, None)
        if plan is None:
            return []
        return await self.run(partial(_body_sizes, self._disk, plan, bytes_max))

    async def pieces(self, stretch: StoredStretch) -> AsyncIterator[bytearray]:
        """The bytes of a stretch, a piece at a time."""
        position, end = stretch.position, stretch.position + stretch.size
        while position < end:
            size = min(PIECE_BYTES, end - position)
            yield await self.run(partial(stretch.read, position, size))
            position += size

    async def send(self, stretch: StoredStretch, descriptor: int, sent: int, socket: int) -> int:
        """Have the system copy bytes of a stretch to a socket, as many as it takes now.

        Args:
            sent: bytes of the stretch before those.
            socket: one that never blocks.

        Returns:
            How many bytes it took; fewer than are left when it takes no more just now.
        """
        count = min(stretch.size - sent, TURN_BYTES)
        position = stretch.position + sent
        return await self.run(partial(_sent, socket, descriptor, position, count))

    def run(self, work: Callable[[], Result]) -> asyncio.Future[Result]:
        """The result of work in a thread."""
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
    """Position of the first batch that is wanted; `end` when none is."""
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
            last = batch.records.bodies_bytes
            total += last
            found.append((batch.base_offset, batch.end_offset, last))
    return found


def _batches(
    disk: Disk, path: Path, position: int, size: int, lowest: int
) -> Iterator[RecordBatch]:
    file = open_segment_file(disk, path)
    try:
        for batch, _, _ in headers(file, position, size, lowest):
            yield batch
    finally:
        file.close()


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
