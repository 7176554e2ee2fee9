"""Reads a segment, whether its file is compressed or not.

A segment is written as `<base offset>.log`. A sealed one may be replaced by its compressed form, a `.zlog`,
which is complete before it gets this name, and there before the `.log` is removed. In memory, a segment keeps
the path of its `.log`, and positions do not change.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from routelog.log_backend.doors.disk import Disk
from routelog.log_backend.segments.compressed_segment import CompressedSegment, CorruptCompression
from routelog.log_backend.segments.log_directory import (
    COMPRESSED,
    base_offset_of,
    compressed_path,
)

FILE_MISSING = "the file is missing"


class SegmentDamaged(Exception):
    """A sealed or synced part of a segment is damaged.

    Attributes:
        position: of the first byte that is not part of a whole and expected batch.
        first: first offset that cannot be read; the segment's base offset if it is not given.
        end: records from this offset on may be undamaged; None: that is not known.
    """

    def __init__(
        self,
        path: Path,
        position: int,
        reason: str,
        first: int | None = None,
        end: int | None = None,
    ) -> None:
        super().__init__(f"{path} is damaged at byte {position}: {reason}")
        self.path = path
        self.position = position
        self.reason = reason
        self.first = base_offset_of(path) if first is None else first
        self.end = end


class SegmentContent(Protocol):
    """The batches of a segment, wherever they lie; `SegmentFile` says what is what."""

    path: Path
    size: int

    def read(self, position: int, size: int) -> bytearray:
        """See `SegmentFile`."""


class SegmentFile:
    """A segment, open for reading.

    Attributes:
        path: of the open file.
        size: of the segment before compression.
        compressed_bytes: size of the file, if it is compressed.
    """

    def __init__(self, disk: Disk, path: Path) -> None:
        self.path = path
        self.compressed_bytes: int | None = None
        self._disk = disk
        self._file = file = disk.open(path)
        self._read: Callable[[int, int], bytearray] = lambda at, size: disk.read(file, at, size)
        try:
            self.size = disk.size(file)
            if path.suffix == COMPRESSED:
                self._unpack()
        except BaseException:
            disk.close(file)
            raise

    def _unpack(self) -> None:
        try:
            segment = CompressedSegment(self._read, self.size)
            if segment.base_offset != base_offset_of(self.path):
                raise CorruptCompression(0, "the header names another segment")
        except CorruptCompression as error:
            raise SegmentDamaged(self.path, 0, error.reason) from None
        self.compressed_bytes = self.size
        self.size = segment.size
        self._read = segment.read

    @property
    def plain(self) -> int | None:
        """The file descriptor, for reading without this class; None if the file is compressed."""
        return self._file if self.compressed_bytes is None else None

    def read(self, position: int, size: int) -> bytearray:
        """Up to `size` bytes; fewer only at the end of the segment.

        Raises:
            SegmentDamaged: a compressed block fails a check.
        """
        try:
            return self._read(position, size)
        except CorruptCompression as error:
            raise SegmentDamaged(self.path, position, error.reason) from None

    def close(self) -> None:
        """Close the file."""
        self._disk.close(self._file)


def open_segment_file(disk: Disk, path: Path) -> SegmentFile:
    """Open a segment, compressed or not.

    Args:
        path: of its `.log`.

    Raises:
        FileNotFoundError: neither form exists: the segment was removed.
        SegmentDamaged: header or table of the compressed form fail a check.
    """
    try:
        return SegmentFile(disk, path)
    except FileNotFoundError:
        # In this order: the compressed form is there before the other one is removed.
        return SegmentFile(disk, compressed_path(path))
