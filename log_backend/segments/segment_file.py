"""A segment's bytes, whichever of its two forms is on the disk.

A segment is written as `<base offset>.log`. A sealed one may be replaced by its compressed form,
`<base offset>.zlog`: complete before it has that name, and there before the other goes. It keeps its
first name in memory, and positions in it do not change.
"""

from collections.abc import Callable
from pathlib import Path

from routelog.log_backend.doors.disk import Disk
from routelog.log_backend.segments.compressed_segment import CompressedSegment, CorruptCompression
from routelog.log_backend.segments.log_directory import COMPRESSED, compressed_path

FILE_MISSING = "the file is missing"  # the reason, when nothing of it is there


class SegmentDamaged(Exception):
    """A sealed or synced part of a segment holds no whole batch; the file and place are named.

    Attributes:
        position: of the first byte that is no part of a whole batch that belongs there.
        first: the offsets from here on cannot be read there; all of the segment's unless given.
        end: what lies behind these may be whole; None when that is not known.
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
        self.first = int(path.stem) if first is None else first
        self.end = end


class SegmentFile:
    """A segment, open for reading.

    Attributes:
        path: of the file that is open.
        size: of the segment, not compressed.
        compressed_bytes: what the compressed form takes on the disk; None: it is not compressed.
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
            if segment.base_offset != int(self.path.stem):
                raise CorruptCompression(0, "the header names another segment")
        except CorruptCompression as error:
            raise SegmentDamaged(self.path, 0, error.reason) from None
        self.compressed_bytes = self.size
        self.size = segment.size
        self._read = segment.read

    @property
    def plain(self) -> int | None:
        """The descriptor, when positions are places in the file; None when it is compressed."""
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
        """Let go of the file."""
        self._disk.close(self._file)


def open_segment_file(disk: Disk, path: Path) -> SegmentFile:
    """Open a segment in the form that it has.

    Args:
        path: of its first form, `.log`.

    Raises:
        FileNotFoundError: there is neither form: it was removed.
        SegmentDamaged: header or table of the compressed form fail a check.
    """
    try:
        return SegmentFile(disk, path)
    except FileNotFoundError:
        # In this order: the compressed form is there before the other one goes.
        return SegmentFile(disk, compressed_path(path))
