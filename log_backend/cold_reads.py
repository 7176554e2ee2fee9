"""Cold reads: what left memory is read back from its segment, in threads."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from log_backend.disk import Disk
from log_backend.loaded_pieces import PieceBudget
from log_backend.record_batch import RecordBatch
from log_backend.segment import Segment, read_batches

THREADS = 2  # one slow read does not keep all others waiting

Result = TypeVar("Result")


class ColdReads:
    """Reads of all partitions' segments.

    Attributes:
        pieces: the memory of what was read.
    """

    def __init__(self, disk: Disk, loop: asyncio.AbstractEventLoop, bytes_max: int) -> None:
        self._disk = disk
        self._loop = loop
        self.pieces = PieceBudget(bytes_max)
        self._executor = ThreadPoolExecutor(THREADS, thread_name_prefix="reader")

    def load(self, segment: Segment, offset: int) -> asyncio.Future[list[RecordBatch]]:
        """Batches of a segment, from the one that holds an offset or follows it: about READ_BYTES."""
        position = segment.position_of(offset)
        return self.run(
            partial(
                read_batches,
                self._disk,
                segment.path,
                position,
                segment.written_size,
                offset,
                segment.lowest_offset_at(position),
            )
        )

    def run(self, work: Callable[[], Result]) -> asyncio.Future[Result]:
        """The result of other work that reads segments."""
        return self._loop.run_in_executor(self._executor, work)

    def close(self) -> None:
        """End the threads, when what they read is read."""
        self._executor.shutdown(wait=True)
