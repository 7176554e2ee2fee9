"""Puts segments on the disk: the part of flushing that blocks and runs in one thread."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from log_backend.disk import Disk
from log_backend.log_directory import COMPRESSED, PLAIN
from log_backend.partition_file import PARTITION_FILE, encode_number, read_number
from log_backend.partition_log import SegmentWrite
from log_backend.segment import Segment


class SegmentWriter:
    """Writes, syncs and removes the files of partitions."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def write(self, writes: Sequence[SegmentWrite], to_sync: Sequence[Segment]) -> None:
        """Write planned batches, then make segments durable.

        Raises:
            OSError: some of it may not be on the disk; never try again.
        """
        for each in writes:
            self._write(each)
        for segment in to_sync:
            try:
                file = self._disk.open(segment.path)
            except FileNotFoundError:
                continue  # settled and removed meanwhile, or compressed: then that form is synced
            try:
                self._disk.sync(file)
            finally:
                self._disk.close(file)
        for directory in {segment.path.parent for segment in to_sync}:
            if directory.exists():
                self._disk.sync_directory(directory)

    def remove(self, segments: Sequence[Segment]) -> None:
        """Delete segments and their indexes, in order."""
        for segment in segments:
            for suffix in (".index", ".timeindex", PLAIN, COMPRESSED):
                path = segment.path.with_suffix(suffix)
                if path.exists():
                    self._disk.remove(path)

    def owner_of(self, directory: Path) -> int | None:
        """Number of the partition whose files lie in a directory; None when that is not known."""
        return read_number(self._disk, directory)

    def remove_directory(self, directory: Path) -> None:
        """Delete a partition's directory; what says whose it is goes last."""
        names = self._disk.list_directory(directory)
        for name in names:
            if name != PARTITION_FILE:
                with suppress(FileNotFoundError):
                    self._disk.remove(directory / name)
        if len(names) > 1:
            self._disk.sync_directory(directory)
        self._disk.remove_tree(directory)

    def write_index(self, segment: Segment) -> None:
        """Write a sealed segment's index files, durably."""
        for path, content in segment.index_files():
            self._write_file(path, content)

    def _write(self, write: SegmentWrite) -> None:
        path = write.segment.path
        if write.position == 0:
            self._own(path.parent, write.partition)
        if write.batches or write.segment.compressed_bytes is None:
            self._write_batches(path, write)
        if write.seal:
            # They say how the segment ended, so they are durable before the next one is there, too.
            self.write_index(write.segment)
            self._disk.sync_directory(path.parent)

    def _write_batches(self, path: Path, write: SegmentWrite) -> None:
        file = self._disk.open(path, create=True)
        try:
            buffers = [
                part for batch in write.batches for part in (batch.header(), batch.records.payload)
            ]
            self._disk.write(file, write.position, buffers)
            if write.seal:
                # Before the next segment is there: only the newest may have a torn tail.
                self._disk.sync(file)
        finally:
            self._disk.close(file)

    def _own(self, directory: Path, number: int) -> None:
        # A damaged file is left to a repair.
        if PARTITION_FILE not in self._disk.list_directory(directory):
            self._disk.make_directory(directory)
            self._write_file(directory / PARTITION_FILE, encode_number(number))
            self._disk.sync_directory(directory)

    def _write_file(self, path: Path, content: bytes) -> None:
        file = self._disk.open(path, create=True)
        try:
            self._disk.truncate(file, len(content))
            self._disk.write(file, 0, [content])
            self._disk.sync(file)
        finally:
            self._disk.close(file)
