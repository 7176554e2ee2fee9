"""Copies a segment to remote storage: the part that blocks, and runs in a thread."""

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
    """The broker stops; the copy is incomplete, and the next run copies the segment again."""


class SegmentCopier:
    """Reads segments, checks them, and writes them to a bucket, at a bounded rate.

    Args:
        epoch: that this node leads in.
        bytes_per_second: 0: no limit.
        stopping: when it is set, a copy under way ends.
    """

    def __init__(
        self,
        bucket: Bucket,
        disk: Disk,
        clock: Clock,
        *,
        epoch: int,
        bytes_per_second: int,
        stopping: threading.Event,
    ) -> None:
        self._bucket = bucket
        self._disk = disk
        self._clock = clock
        self._epoch = epoch
        self._copies = 0
        self._bytes_per_second = bytes_per_second
        self._stopping = stopping

    def copy(self, folder: str, segment: Segment) -> RemoteSegment:
        """Copy a sealed segment; the copy is complete and durable when this returns.

        Raises:
            SegmentDamaged: a batch fails a check; nothing was copied.
            FileNotFoundError: the segment was removed meanwhile.
            CopyStopped, BucketFailed: the copy is not complete; the next one has other names.
        """
        self._verify(segment)
        try:
            path = segment.path
            file = self._disk.open(path)
        except FileNotFoundError:
            # In this order: the compressed form is there before the other one is removed.
            path = compressed_path(segment.path)
            file = self._disk.open(path)
        try:
            size = self._disk.size(file)
            assert segment.next_base is not None
            self._copies += 1
            copied = RemoteSegment(
                segment.base_offset,
                segment.next_base,
                segment.last_time,
                self._epoch,
                self._copies,
                size,
                path.suffix == COMPRESSED,
                segment.base_offset,
            )
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
                return  # `Bucket.write` fails, because there are too few bytes
            yield piece
            sent += len(piece)
            if self._bytes_per_second:
                ahead = began + sent / self._bytes_per_second - self._clock.monotonic()
                self._stopping.wait(max(ahead, 0.0))

    def _check_stopping(self) -> None:
        if self._stopping.is_set():
            raise CopyStopped
