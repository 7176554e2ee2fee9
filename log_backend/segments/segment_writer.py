"""Writes segments to the disk: the part of a flush that blocks, and runs in one thread."""

import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from routelog.log_backend.doors.disk import Disk, DiskFull, is_full, opened
from routelog.log_backend.records.gathering import Gathering
from routelog.log_backend.records.record_batch import RecordBatch
from routelog.log_backend.segments.log_directory import base_offsets
from routelog.log_backend.segments.partition_file import PARTITION_FILE, encode_number, read_number
from routelog.log_backend.segments.segment import READ_BYTES, Segment, SegmentMark
from routelog.log_backend.segments.segment_removal import SegmentRemoval

log = logging.getLogger(__name__)

GATHERED_BYTES_MAX = 1024 * 1024  # copied into one write; a larger write is not faster


@dataclass(slots=True)
class SegmentWrite:
    """Batches to write to a segment, end to end.

    Attributes:
        before: the segment's state without them; None: the segment is new.
        bytes: of the batches.
        seal: they are the last of the segment.
        done: set by the writer, in its thread.
    """

    partition: int
    segment: Segment
    position: int
    before: SegmentMark | None = None
    batches: list[RecordBatch] = field(default_factory=list)
    bytes: int = 0
    seal: bool = False
    done: bool = False


class SegmentWriter:
    """Writes and syncs the files of partitions.

    Args:
        removal: of segments that partitions do not need any more.
    """

    def __init__(self, disk: Disk, removal: SegmentRemoval) -> None:
        self._disk = disk
        self._removal = removal

    def write(self, writes: Iterable[SegmentWrite], to_sync: Sequence[Segment]) -> None:
        """Write planned batches, then make segments durable.

        Raises:
            DiskFull: there is no room. Writes that are not `done` have written nothing, and may be
                tried again in this order; no segment was synced.
            OSError, MetadataUnavailable: some of it may not be on the disk; never try again.
        """
        for each in writes:
            self._write(each)
            each.done = True
        for segment in to_sync:
            # A missing one was removed meanwhile, or compressed; the compressed form is synced.
            with suppress(FileNotFoundError), opened(self._disk, segment.path) as file:
                self._sync(file, segment)
        for directory in {segment.path.parent for segment in to_sync}:
            with suppress(FileNotFoundError):
                self._disk.sync_directory(directory)

    def owner_of(self, directory: Path) -> int | None:
        """Number of the partition that owns a directory; None if that is not known."""
        return read_number(self._disk, directory)

    def remove_directory(self, directory: Path) -> None:
        """Delete a partition's directory; the file PARTITION, which names its owner, goes last."""
        self._removal.forget(directory)
        names = self._disk.list_directory(directory)
        for name in names:
            if name != PARTITION_FILE:
                with suppress(FileNotFoundError):
                    self._disk.remove(directory / name)
        if len(names) > 1:
            self._disk.sync_directory(directory)
        self._disk.remove_tree(directory)

    def write_index(self, segment: Segment) -> None:
        """Write a sealed segment's index files, durably.

        Raises:
            DiskFull: they are missing or incomplete.
        """
        for path, content in segment.index_files():
            self._write_file(path, content)

    def _write(self, write: SegmentWrite) -> None:
        path = write.segment.path
        if write.position == 0:
            # An unneeded segment may never have been synced; with a segment behind it, it would be taken for
            # damage. So it must be removed first.
            self._removal.finish(path.parent)
            self._own(path.parent, write.partition)
        if write.seal:
            # The index says how the segment ends and what follows, so it must be durable before the next
            # segment exists. It is written before the batches, so that nothing is written if it has no room;
            # recovery ignores the index of a newest segment.
            self.write_index(write.segment)
        if write.batches or write.segment.compressed_bytes is None:
            self._write_batches(path, write)
        if write.seal:
            self._disk.sync_directory(path.parent)

    def _write_batches(self, path: Path, write: SegmentWrite) -> None:
        file = self._open_with_room(path, write.position, write.bytes)
        try:
            at, position = 0, write.position
            while at < len(write.batches):
                gathering = Gathering()
                at = gathering.add_batches(write.batches, at, GATHERED_BYTES_MAX)
                self._disk.write(file, position, gathering.buffers())
                position += gathering.bytes
            if write.seal:
                # Before the next segment exists: only the newest may have a torn tail.
                self._sync(file, write.segment)
        finally:
            self._disk.close(file)

    def _sync(self, file: int, segment: Segment) -> None:
        if segment.doubtful is not None:
            first, end = segment.doubtful
            for position in range(first, end, READ_BYTES):
                content = self._disk.read(file, position, min(READ_BYTES, end - position))
                self._disk.write(file, position, [content])
            segment.doubtful = None
        self._disk.sync(file)

    def _own(self, directory: Path, number: int) -> None:
        # The file PARTITION must be durable before a segment is: segments without it are damage.
        owner, names = self.owner_of(directory), self._disk.list_directory(directory)
        if owner == number:
            return
        if owner is not None or not base_offsets(names):
            self.remove_directory(directory)  # left by a deleted queue
        elif PARTITION_FILE in names:
            return  # the file is damaged: only `log repair` changes it
        self._disk.make_directory(directory)
        path = directory / PARTITION_FILE
        try:
            self._write_file(path, encode_number(number))
            self._disk.sync_directory(directory)
        except OSError:
            # The next start must not find it if it is only in the system's cache.
            with suppress(OSError):
                self._disk.remove(path)
            raise

    def _write_file(self, path: Path, content: bytes) -> None:
        file = self._open_with_room(path, 0, len(content))
        try:
            self._disk.truncate(file, len(content))
            self._disk.write(file, 0, [content])
            self._disk.sync(file)
        finally:
            self._disk.close(file)

    def _open_with_room(self, path: Path, position: int, size: int) -> int:
        # Reserves the space, so that a full disk fails here, before anything is written.
        file = None
        try:
            file = self._disk.open(path, create=True)
            self._disk.allocate(file, position, size)
        except OSError as error:
            if file is not None:
                self._cut_back(file, path, position)
            if is_full(error):
                raise DiskFull(str(error)) from error
            raise
        return file

    def _cut_back(self, file: int, path: Path, size: int) -> None:
        try:
            self._disk.truncate(file, size)
        finally:
            self._disk.close(file)
        if size == 0:
            self._disk.remove(path)
