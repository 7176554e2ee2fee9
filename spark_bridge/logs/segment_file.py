"""Reads a segment file: record batches end to end, compressed or not, with index files beside it."""

import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Self

from routelog.log_backend.records.record_batch import (
    HEADER_BYTES,
    CorruptBatch,
    RecordBatch,
    batch_bytes,
    decode_batch,
    decode_header,
)
from routelog.log_backend.segments.compressed_segment import CompressedSegment, CorruptCompression
from routelog.log_backend.segments.log_directory import base_offset_of, compressed_path
from routelog.log_backend.segments.segment_index import HEADER_BYTES as INDEX_HEADER_BYTES
from routelog.log_backend.segments.segment_index import decode_index
from routelog.spark_bridge.logs.errors import DamagedSegment
from routelog.spark_bridge.logs.readable_logs import BatchSize, Cut, cut_batches

STRETCH_BYTES = 1024 * 1024  # read at once: more is not faster, and takes memory

Stamp = tuple[int, int, int]  # a file's inode, size, and time of its last change


class SegmentFile:
    """One segment, open for reading; positions are those before compression.

    Batches are views of a stretch of the file in memory. The file is read, not mapped: the broker may truncate
    it meanwhile, and access to a mapped file behind its end kills the process.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.base_offset = base_offset_of(path)
        try:
            self._file = path.open("rb")
        except FileNotFoundError:
            # In this order: the compressed form is there before the other one is removed.
            self.path = compressed_path(path)
            self._file = self.path.open("rb")
        self._compressed: CompressedSegment | None = None
        self._stretch = memoryview(b"")
        self._stretch_at = 0
        if self.path != path:
            try:
                self._compressed = self._open_compressed()
            except DamagedSegment:
                self._file.close()
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def batches(self, position: int = 0) -> Iterator[RecordBatch]:
        """Batches from a batch's position to the end of the file, checksums verified.

        Raises:
            DamagedSegment: a batch fails a check, or offsets do not ascend.
        """
        expected = self.base_offset
        while True:
            batch = self._batch_in_memory(position)
            if batch is None:
                if self._ends_at(position):
                    return
                batch = self.batch(position)
            if batch.base_offset < expected:
                raise DamagedSegment(self.path, position, "offsets go backwards")
            yield batch
            expected = batch.end_offset
            position += batch.records.batch_bytes

    def position_of(self, offset: int, hint: int = 0) -> int:
        """Position of the first batch that ends behind an offset; the file's end if none does.

        Args:
            hint: a position, perhaps of a batch at or before the offset.

        Cost:
            Reads headers from the index entry or the hint before the offset; without either, from the
            beginning.

        Raises:
            DamagedSegment: a header fails a check.
        """
        position = self._indexed_position(offset, hint)
        while not self._ends_at(position):
            header = self._view(position, HEADER_BYTES)
            if self._header(position).end_offset > offset:
                break
            position += batch_bytes(header, 0)
        return position

    def stamp(self) -> Stamp:
        """A value that changes with the file, except if it changes twice within some milliseconds."""
        found = os.fstat(self._file.fileno())
        return found.st_ino, found.st_size, found.st_mtime_ns

    def has_header(self, position: int) -> bool:
        """Whether a batch begins at a position; reads no more than its header."""
        try:
            decode_header(self._read(position, HEADER_BYTES))
        except CorruptBatch:
            return False
        return True

    def first_time(self) -> int | None:
        """When the first record was received (us since 1970); None when there is none.

        Raises:
            DamagedSegment: there is no header where one has to be.
        """
        for _, batch in self.headers(0):
            return batch.records.time
        return None

    def offset_at(self, time: int) -> int | None:
        """Offset of the first batch received at a time (us since 1970) or later, if there is one.

        Raises:
            DamagedSegment: a header on the way is none.
        """
        for _, batch in self.headers(self._timed_position(time)):
            if batch.records.time >= time:
                return batch.base_offset
        return None

    def cut(self, start: int, end: int, bytes_max: int, hint: int = 0) -> Cut:
        """The longest beginning of a range of offsets; see `ReadableLogs.cut`.

        Raises:
            DamagedSegment: no batch is where one has to be.
        """
        sizes = (
            BatchSize(
                header.base_offset,
                header.end_offset,
                header.records.bodies_bytes,
                partial(self.batch, position),
            )
            for position, header in self.headers(self.position_of(start, hint))
        )
        return cut_batches(sizes, start, end, bytes_max)

    def headers(self, position: int) -> Iterator[tuple[int, RecordBatch]]:
        """Batches without payloads, and their positions, from a batch's position to the end.

        Raises:
            DamagedSegment: where a header has to be is none.
        """
        while not self._ends_at(position):
            yield position, self._header(position)
            position += batch_bytes(self._view(position, HEADER_BYTES), 0)

    def _indexed_position(self, offset: int, hint: int) -> int:
        """The index's answer, if a fitting header stands there: it is a hint, not the truth."""
        position = max(self._index_entry(offset), hint)
        try:
            header = self._header(position)
        except DamagedSegment:
            return 0
        return position if self.base_offset <= header.base_offset <= offset else 0

    def _index_entry(self, offset: int) -> int:
        data = self._beside(".index")[INDEX_HEADER_BYTES:]
        entries = memoryview(data)[: len(data) // 8 * 8].cast("I")
        relative = offset - self.base_offset
        count = bisect_right(range(len(entries) // 2), relative, key=lambda i: entries[2 * i])
        return entries[2 * count - 1] if count else 0

    def _timed_position(self, time: int) -> int:
        """Position of an indexed batch before a time, if a fitting header stands there."""
        index = decode_index(self._beside(".index"), self._beside(".timeindex"))
        at = bisect_left(index.times, time) - 1 if index else -1
        return index.positions[at] if index and at >= 0 else 0

    def _beside(self, suffix: str) -> bytes:
        try:
            with self.path.with_suffix(suffix).open("rb") as file:
                return file.read()
        except FileNotFoundError:
            return b""

    def _ends_at(self, position: int) -> bool:
        if self._view(position, 1):
            return False
        if position > (self._compressed.size if self._compressed else self._file.seek(0, 2)):
            raise DamagedSegment(self.path, position, "the batch before is cut off")
        return True

    def _header(self, position: int) -> RecordBatch:
        try:
            return decode_header(self._view(position, HEADER_BYTES))
        except CorruptBatch as error:
            raise DamagedSegment(self.path, position, error.reason) from None

    def batch(self, position: int) -> RecordBatch:
        """The batch at a position, checksums verified.

        Raises:
            DamagedSegment: there is none.
        """
        length = max(batch_bytes(self._view(position, HEADER_BYTES), 0), HEADER_BYTES)
        if length > STRETCH_BYTES:
            self._header(position)  # checks the length before so much memory is allocated
        try:
            return decode_batch(self._view(position, length), 0)
        except CorruptBatch as error:
            raise DamagedSegment(self.path, position, error.reason) from None

    def _batch_in_memory(self, position: int) -> RecordBatch | None:
        """The batch at a position if it is whole in the stretch; faster than `batch`."""
        stretch, at = self._stretch, position - self._stretch_at
        there = len(stretch) - at
        if at < 0 or there < HEADER_BYTES or batch_bytes(stretch, at) > there:
            return None
        try:
            return decode_batch(stretch, at)
        except CorruptBatch as error:
            raise DamagedSegment(self.path, position, error.reason) from None

    def _view(self, position: int, size: int) -> memoryview:
        """Bytes of the file, fewer at its end."""
        at = position - self._stretch_at
        if at < 0 or at + size > len(self._stretch):
            # Of a large batch, read no more than the batch and the next header: the rest would be read again.
            wanted = STRETCH_BYTES if size < STRETCH_BYTES // 4 else size + HEADER_BYTES
            self._stretch = memoryview(self._read(position, wanted))
            self._stretch_at = position
            at = 0
        return self._stretch[at : at + size]

    def _read(self, position: int, size: int) -> bytes | bytearray:
        if self._compressed is None:
            return self._read_file(position, size)
        try:
            return self._compressed.read(position, size)
        except CorruptCompression as error:
            raise DamagedSegment(self.path, position, error.reason) from None

    def _read_file(self, file_offset: int, size: int) -> bytes:
        self._file.seek(file_offset)
        return self._file.read(size)

    def _open_compressed(self) -> CompressedSegment:
        try:
            segment = CompressedSegment(self._read_file, self._file.seek(0, 2))
        except CorruptCompression as error:
            raise DamagedSegment(self.path, 0, error.reason) from None
        if segment.base_offset != self.base_offset:
            raise DamagedSegment(self.path, 0, "the header names another segment")
        return segment
