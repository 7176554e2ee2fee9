"""Copies one segment to remote storage: the part that blocks and runs in a thread."""

import threading
from collections.abc import Iterator

from routelog.log_backend.doors.clock import Clock
from routelog.log_backend.doors.disk import Disk
from routelog.log_backend.remote.bucket import Bucket
from routelog.log_backend.remote.remote_segment import RemoteSegment, encode_remote_index
from routelog.log_backend.segments.log_directory import COMPRESSED, compressed_path
from routelog.log_backend.segments.segment import Segment
from routelog.log_backend.upkeep.scrub import ReadBack, read_stretch

PIECE_BYTES = 1024 * 1024  # read and sent at once


class CopyStopped(Exception):
    """The broker stops; what was sent is of no segment, and is sent again by the next run."""


class SegmentCopier:
    """Reads segments, checks them, and writes them to a bucket, at a bounded rate.

    Args:
        bytes_per_second: 0 is as fast as it goes.
        stopping: ends what is under way.
    """

    def __init__(
        self,
        bucket: Bucket,
        disk: Disk,
        clock: Clock,
        *,
        bytes_per_second: int,
        stopping: threading.Event,
    ) -> None:
        self._bucket = bucket
        self._disk = disk
        self._clock = clock
        self._bytes_per_second = bytes_per_second
        self._stopping = stopping

    def copy(
        self, folder: str, segment: Segment, replaced: RemoteSegment | None = None
    ) -> RemoteSegment:
        """Copy a sealed segment; it is in the bucket, whole and durable, when this returns.

        Args:
            replaced: a copy of what the segment was before it was written on. It is there no more as soon as
                this writes.

        Raises:
            SegmentDamaged: a batch fails a check; nothing of the segment was copied.
            FileNotFoundError: it was removed meanwhile.
            CopyStopped, BucketFailed: it is not there yet.
        """
        self._verify(segment)
        try:
            path = segment.path
            file = self._disk.open(path)
        except FileNotFoundError:
            # In this order: the compressed form is there before the other one goes.
            path = compressed_path(segment.path)
            file = self._disk.open(path)
        try:
            size = self._disk.size(file)
            assert segment.next_base is not None
            copied = RemoteSegment(
                segment.base_offset,
                segment.next_base,
                segment.last_time,
                size,
                path.suffix == COMPRESSED,
            )
            if replaced is not None:
                # Its content has the same name: it must not vouch for one that breaks off.
                self._bucket.remove(f"{folder}/{replaced.index_name}")
            content = self._pieces(file, size)
            self._bucket.write(f"{folder}/{copied.content_name}", content, size)
        finally:
            self._disk.close(file)
        index = encode_remote_index(segment)
        self._bucket.write(f"{folder}/{copied.index_name}", [index], len(index))
        return copied

    def _verify(self, segment: Segment) -> None:
        at = ReadBack(0, segment.base_offset)
        while at.position < segment.size:
            self._check_stopping()
            at = read_stretch(self._disk, segment.path, at, segment.size)

    def _pieces(self, file: int, size: int) -> Iterator[bytearray]:
        began, sent = self._clock.monotonic(), 0
        while sent < size:
            self._check_stopping()
            piece = self._disk.read(file, sent, min(PIECE_BYTES, size - sent))
            if not piece:
                return  # the bucket says that there is too little
            yield piece
            sent += len(piece)
            if self._bytes_per_second:
                ahead = began + sent / self._bytes_per_second - self._clock.monotonic()
                self._stopping.wait(max(ahead, 0.0))

    def _check_stopping(self) -> None:
        if self._stopping.is_set():
            raise CopyStopped
