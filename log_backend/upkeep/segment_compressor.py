"""Compresses sealed segments in the background, one at a time.

The compressor's thread reads a segment, writes the compressed form to a scratch file, block by block, and syncs
it. The flusher's thread then renames the scratch file, and removes the other form. Segments and partitions are
removed in the same thread, so the rename cannot bring a removed one back. If anything fails, the segment stays
as it was.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path

from routelog.log_backend.doors.disk import Disk, DiskFull, opened
from routelog.log_backend.partitions.partition_log import PartitionLog
from routelog.log_backend.segments.compressed_segment import CODECS, CodecFailed, SegmentPacker
from routelog.log_backend.segments.log_directory import compressed_path
from routelog.log_backend.segments.segment import Segment

log = logging.getLogger(__name__)

GAIN_MIN = 0.1  # of a segment's bytes: saving less is not worth the time of unpacking


class NotCompressed(Exception):
    """A segment is not compressed; the text says why."""


class SegmentCompressor:
    """Compresses the sealed segments of partitions that ask for it.

    Args:
        run: starts a task; the owner awaits it between `stop` and `close`.
        check_space: raises DiskFull if there is no room for so many bytes.
    """

    def __init__(
        self,
        disk: Disk,
        loop: asyncio.AbstractEventLoop,
        scratch: Path,
        flusher: Executor,
        run: Callable[[Coroutine[None, None, None]], None],
        check_space: Callable[[int], None],
    ) -> None:
        self._disk = disk
        self._loop = loop
        self._scratch = scratch
        self._flusher = flusher
        self._run = run
        self._check_space = check_space
        # The thread must not have a low priority: if the system does not run it while it holds the GIL, the
        # event loop stops. Codecs and file operations release the GIL.
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="compressor")
        self._stopping = threading.Event()
        self._waiting: dict[PartitionLog, None] = {}  # in order
        self._working = False
        self._turn = asyncio.Lock()  # there is one scratch file
        if scratch.name in disk.list_directory(scratch.parent):
            disk.remove(scratch)

    def look(self, partition: PartitionLog) -> None:
        """Compress the sealed segments of a partition soon."""
        if self._stopping.is_set() or next_segment(partition) is None:
            return
        self._waiting[partition] = None
        if not self._working:
            self._working = True
            self._run(self._work())

    async def compress(self, partition: PartitionLog, segment: Segment) -> None:
        """Compress a segment in front of those that wait, if its partition asks for that."""
        async with self._turn:
            if _is_due(partition, segment) and not self._stopping.is_set():
                await self._compress(partition, segment)

    def stop(self) -> None:
        """Begin nothing more; a segment under way is compressed after the next start."""
        self._stopping.set()

    def close(self) -> None:
        """End the thread; call it when the tasks given to `run` have ended."""
        self._executor.shutdown(wait=True)

    async def _work(self) -> None:
        try:
            while self._waiting and not self._stopping.is_set():
                partition = next(iter(self._waiting))
                del self._waiting[partition]
                async with self._turn:
                    segment = next_segment(partition)
                    if segment is not None:
                        self._waiting[partition] = None  # behind the others, for its next segment
                        await self._compress(partition, segment)
        finally:
            self._working = False

    async def _compress(self, partition: PartitionLog, segment: Segment) -> None:
        segment.compressible = False  # tried once in a run
        codec = CODECS[partition.compression]
        try:
            file_bytes = await self._loop.run_in_executor(
                self._executor, self._write_scratch, segment, codec
            )
            if _is_there(segment, partition):
                # No await in between: a removal from here on comes later in the flusher's thread.
                await self._loop.run_in_executor(self._flusher, self._replace, segment)
                segment.compressed_bytes = file_bytes
                return
        except DiskFull as error:
            # Other writes need the space more; the partition's next flush asks again.
            log.debug("%s is not compressed yet: %s", segment.path, error)
            segment.compressible = True
            self._waiting.pop(partition, None)
            return
        except NotCompressed as reason:
            log.debug("%s is not compressed: %s", segment.path, reason)
        except (OSError, CodecFailed) as error:
            if _is_there(segment, partition):
                log.error("%s is not compressed: %s", segment.path, error)
        await self._loop.run_in_executor(self._executor, self._discard_scratch)

    def _write_scratch(self, segment: Segment, codec: int) -> int:
        """Write and sync the compressed form; returns its size."""
        self._check_space(segment.size)
        disk = self._disk
        packer = SegmentPacker(codec, segment.base_offset)
        with (
            opened(disk, segment.path) as source,
            opened(disk, self._scratch, create=True) as target,
        ):
            disk.truncate(target, 0)
            for start, end in segment.blocks():
                if self._stopping.is_set():
                    raise NotCompressed("the broker stops")
                raw = disk.read(source, start, end - start)
                if len(raw) < end - start:
                    raise NotCompressed("the file is cut off")
                disk.write(target, packer.end, packer.block(raw))
            if packer.file_bytes > segment.size * (1 - GAIN_MIN):
                raise NotCompressed("it would hardly be smaller")
            disk.write(target, packer.end, [packer.table()])
            disk.write(target, 0, [packer.header()])
            disk.sync(target)
        return packer.file_bytes

    def _discard_scratch(self) -> None:
        try:
            self._disk.remove(self._scratch)
        except FileNotFoundError:
            pass  # it was renamed, or never created
        except OSError as error:
            log.error("%s stays until the next start: %s", self._scratch, error)

    def _replace(self, segment: Segment) -> None:
        path = compressed_path(segment.path)
        self._disk.rename(self._scratch, path)
        self._disk.sync_directory(path.parent)
        self._disk.remove(segment.path)  # a crash may leave both forms: see segment_forms.py


def _is_there(segment: Segment, partition: PartitionLog) -> bool:
    return not partition.closed and segment in partition.segments


def next_segment(partition: PartitionLog) -> Segment | None:
    """The oldest segment of a partition that is to be compressed."""
    return next((each for each in partition.sealed_segments() if _is_due(partition, each)), None)


def _is_due(partition: PartitionLog, segment: Segment) -> bool:
    tried = segment.damaged or not segment.compressible
    is_plain = segment.compressed_bytes is None and segment.size > 0
    return partition.compression in CODECS and is_plain and not tried
