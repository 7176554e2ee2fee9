"""Cold reads: records that are no longer in memory are read from their segment, in threads."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from routelog.log_backend.doors.disk import Disk, NoDescriptor
from routelog.log_backend.partitions.loaded_pieces import PieceBudget
from routelog.log_backend.records.record_batch import RecordBatch
from routelog.log_backend.segments.record_fetch import StoredRecord, fetch_records
from routelog.log_backend.segments.segment import Segment, read_batches

THREADS = 2  # so that one slow read does not delay all others
# Waits before a read is tried again that found no free file descriptor; 3 s together.
RETRY_SECONDS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)

Result = TypeVar("Result")

log = logging.getLogger(__name__)


class ColdReads:
    """Reads of all partitions' segments.

    Attributes:
        pieces: limits the memory of the batches that were read.
    """

    def __init__(self, disk: Disk, loop: asyncio.AbstractEventLoop, bytes_max: int) -> None:
        self._disk = disk
        self._loop = loop
        self.pieces = PieceBudget(bytes_max)
        self._executor = ThreadPoolExecutor(THREADS, thread_name_prefix="reader")
        self._tasks: set[asyncio.Task[Any]] = set()

    def load(self, segment: Segment, offset: int) -> asyncio.Future[list[RecordBatch]]:
        """Read about READ_BYTES of batches, from the one that holds an offset or follows it."""
        position = segment.position_of(offset)
        end, lowest = segment.written_size, segment.lowest_offset_at(position)
        return self._begin(
            partial(read_batches, self._disk, segment.path, position, end, offset, lowest)
        )

    def fetch(
        self, segment: Segment, offsets: Sequence[int], bytes_max: int
    ) -> asyncio.Future[Mapping[int, StoredRecord]]:
        """Read single records of a segment.

        Args:
            offsets: ascending.
            bytes_max: of all records; the first one may be larger.

        Returns:
            Records by offset, up to the limit; an offset that is not in the segment is left out.
        """
        wanted = []
        for offset in offsets:
            position = segment.position_of(offset)
            wanted.append((offset, position, segment.lowest_offset_at(position)))
        end = segment.written_size
        return self._begin(partial(fetch_records, self._disk, segment.path, wanted, end, bytes_max))

    def _begin(self, work: Callable[[], Result]) -> "asyncio.Task[Result]":
        task = self._loop.create_task(self._read(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _read(self, work: Callable[[], Result]) -> Result:
        for seconds in RETRY_SECONDS:
            try:
                return await self.run(work)
            except NoDescriptor as error:
                log.warning("a cold read is tried again in %s s: %s", seconds, error)
            await asyncio.sleep(seconds)
        return await self.run(work)

    def run(self, work: Callable[[], Result]) -> asyncio.Future[Result]:
        """Run other work that reads segments in a thread, and return its result."""
        return self._loop.run_in_executor(self._executor, work)

    async def aclose(self) -> None:
        """Cancel reads that wait to be tried again, and wait for those that are running."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._executor.shutdown(wait=True)
