"""The scrub: reads sealed segments in the background to find damage before a consumer meets it."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from routelog.log_backend.doors.clock import Clock
from routelog.log_backend.doors.disk import Disk
from routelog.log_backend.loop.background import log_failure
from routelog.log_backend.partitions.partition_log import PartitionLog
from routelog.log_backend.segments.segment import Segment, SegmentDamaged, headers, read_batch
from routelog.log_backend.segments.segment_file import open_segment_file

log = logging.getLogger(__name__)

STRETCH_BYTES = 256 * 1024  # read at once: cold reads may wait 1 ms for the thread


@dataclass(frozen=True, slots=True)
class ReadBack:
    """How far a segment was read without damage."""

    position: int
    offset: int


class Scrub:
    """Reads all sealed segments, again and again, at a bounded rate.

    Attributes:
        bytes, segments, rounds: read since the start.
        damages: found since the start.

    Args:
        in_thread: runs work in a thread.
    """

    def __init__(
        self,
        partitions: Mapping[int, PartitionLog],
        in_thread: Callable[[Callable[[], ReadBack]], asyncio.Future[ReadBack]],
        disk: Disk,
        clock: Clock,
        *,
        bytes_per_second: int,
        interval_seconds: float,
    ) -> None:
        self._partitions = partitions
        self._in_thread = in_thread
        self._disk = disk
        self._clock = clock
        self._bytes_per_second = bytes_per_second
        self._interval_seconds = interval_seconds
        self._task: asyncio.Task[None] | None = None
        self.bytes = 0
        self.segments = 0
        self.rounds = 0
        self.damages = 0

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin the first round, unless the rate is 0."""
        if self._bytes_per_second:
            self._task = loop.create_task(self._run())
            self._task.add_done_callback(partial(log_failure, "the scrub stopped"))

    async def aclose(self) -> None:
        """Stop; a read that has begun is finished."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            began = self._clock.monotonic()
            for partition in [*self._partitions.values()]:
                for segment in partition.segments[:-1]:
                    await self._read(partition, segment)
            self.rounds += 1
            await asyncio.sleep(max(0.0, began + self._interval_seconds - self._clock.monotonic()))

    async def _read(self, partition: PartitionLog, segment: Segment) -> None:
        at = ReadBack(0, segment.base_offset)
        while at.position < segment.written_size and not self._is_past(partition, segment):
            before = at.position
            work = partial(read_stretch, self._disk, segment.path, at, segment.written_size)
            try:
                at = await self._in_thread(work)
            except SegmentDamaged as error:
                if not self._is_past(partition, segment):  # else it was removed during the read
                    self.damages += 1
                    partition.quarantine_segment(segment, error)
                return
            except FileNotFoundError:
                return  # it was removed meanwhile
            except OSError as error:
                log.error("%s cannot be read, the scrub passes it over: %s", segment.path, error)
                return
            self.bytes += at.position - before
            await self._wait((at.position - before) / self._bytes_per_second)
        self.segments += 1

    def _is_past(self, partition: PartitionLog, segment: Segment) -> bool:
        return partition.closed or segment.damaged or segment not in partition.segments

    async def _wait(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def read_stretch(disk: Disk, path: Path, start: ReadBack, end: int) -> ReadBack:
    """Read and check about STRETCH_BYTES of batches.

    Args:
        start: position of a batch, and the lowest base offset that it may have.
        end: size of the segment.

    Raises:
        SegmentDamaged: a batch fails a check.
    """
    with closing(open_segment_file(disk, path)) as file:
        offset = start.offset
        for batch, at, size in headers(file, start.position, end, start.offset):
            read_batch(file, batch, at, size)
            offset = batch.end_offset
            if at + size - start.position >= STRETCH_BYTES:
                return ReadBack(at + size, offset)
        return ReadBack(end, offset)
