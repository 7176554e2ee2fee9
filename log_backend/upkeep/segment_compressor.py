"""Compresses sealed segments in the background, one at a time.

A thread of its own reads a segment and writes the compressed form to a scratch file, block by block, and
syncs it. The flusher's thread then gives that file its name and removes the other form: it also
removes segments and whole partitions, so none comes back when it was removed meanwhile. Until then, and
whatever fails, the segment is as it was.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path

from routelog.log_backend.doors.disk import Disk, DiskFull
from routelog.log_backend.partitions.partition_log import PartitionLog
from routelog.log_backend.segments.compressed_segment import CODECS, CodecFailed, SegmentPacker
from routelog.log_backend.segments.log_directory import compressed_path
from routelog.log_backend.segments.segment import Segment

log = logging.getLogger(__name__)

GAIN_MIN = 0.1  # of a segment's bytes: reading it compressed costs more than less is worth


class NotCompressed(Exception):
    """A segment keeps its first form; the text says why."""


class SegmentCompressor:
    """Looks after the sealed segments of partitions that want compression.

    Args:
        run: is given a coroutine whenever there is work; its owner awaits it between `stop` and `close`.
        check_space: raises DiskFull when there is no room for so many bytes.
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
        # Not at a low priority of the system's: a thread that is not let run while it holds the
        # interpreter's lock would stop the event loop. Codecs and files work without the lock.
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="compressor")
        self._stopping = threading.Event()
        self._waiting: dict[PartitionLog, None] = {}  # in order
        self._working = False
        if scratch.name in disk.list_directory(scratch.parent):
            disk.remove(scratch)

    def look(self, partition: PartitionLog) -> None:
        """Compress what a partition has sealed, soon."""
        if self._stopping.is_set() or next_segment(partition) is None:
            return
        self._waiting[partition] = None
        if not self._working:
            self._working = True
            self._run(self._work())

    def stop(self) -> None:
        """Begin nothing more; a segment under way keeps its first form until the next start."""
        self._stopping.set()

    def close(self) -> None:
        """Let go of the thread, when what was given to `run` has ended."""
        self._executor.shutdown(wait=True)

    async def _work(self) -> None:
        try:
            while self._waiting and not self._stopping.is_set():
                partition = next(iter(self._waiting))
                del self._waiting[partition]
                segment = next_segment(partition)
                if segment is not None:
                    self._waiting[partition] = None  # behind the others, for its next one
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
                # No await since the look: what removes it from here on does so behind this.
                await self._loop.run_in_executor(self._flusher, self._replace, segment)
                segment.compressed_bytes = file_bytes
                return
        except DiskFull as error:
            # What others have to write goes first; the partition's next flush asks again.
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
        packer = SegmentPacker(codec, segment.base_offset)
        source = self._disk.open(segment.path)
        try:
            target = self._disk.open(self._scratch, create=True)
            try:
                self._disk.truncate(target, 0)
                for start, end in segment.blocks():
                    if self._stopping.is_set():
                        raise NotCompressed("the broker stops")
                    raw = self._disk.read(source, start, end - start)
                    if len(raw) < end - start:
                        raise NotCompressed("the file is cut off")
                    self._disk.write(target, packer.end, packer.block(raw))
                if packer.file_bytes > segment.size * (1 - GAIN_MIN):
                    raise NotCompressed("it would hardly be smaller")
                self._disk.write(target, packer.end, [packer.table()])
                self._disk.write(target, 0, [packer.header()])
                self._disk.sync(target)
            finally:
                self._disk.close(target)
        finally:
            self._disk.close(source)
        return packer.file_bytes

    def _discard_scratch(self) -> None:
        try:
            self._disk.remove(self._scratch)
        except FileNotFoundError:
            pass  # it has its name, or never was
        except OSError as error:
            log.error("%s stays until the next start: %s", self._scratch, error)

    def _replace(self, segment: Segment) -> None:
        path = compressed_path(segment.path)
        self._disk.rename(self._scratch, path)
        self._disk.sync_directory(path.parent)
        self._disk.remove(segment.path)  # a crash may leave both: see segment_forms


def _is_there(segment: Segment, partition: PartitionLog) -> bool:
    return not partition.closed and segment in partition.segments


def next_segment(partition: PartitionLog) -> Segment | None:
    """The oldest segment of a partition that waits for compression."""
    if partition.compression not in CODECS:
        return None
    for segment in partition.sealed_segments():
        tried = segment.damaged or not segment.compressible
        if segment.compressed_bytes is None and segment.size and not tried:
            return segment
    return None
