"""Reads a whole segment, damaged or not: what is whole, what is not, and where it goes on.

The broker stops at damage; the tools look behind it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from routelog.log_backend.doors.disk import Disk
from routelog.log_backend.records.record_batch import (
    BATCH_ALIGNMENT,
    HEADER_BYTES,
    MAGIC,
    CorruptBatch,
    RecordBatch,
    batch_bytes,
    decode_batch,
    decode_header,
)
from routelog.log_backend.segments.segment_file import (
    SegmentDamaged,
    SegmentFile,
    open_segment_file,
)

PIECE_BYTES = 4_096  # of a damaged compressed segment, tried on its own


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of a segment: one whole batch, or what is none.

    Attributes:
        batch: None when it is damaged; `reason` says why.
        end: offset behind what a damaged stretch held, as far as that is known.
    """

    position: int
    size: int
    batch: RecordBatch | None
    reason: str = ""
    first: int = 0
    end: int | None = None


def read_segment(disk: Disk, path: Path) -> bytearray:
    """The batches of a segment, one behind the other, as they were written; none when it is missing."""
    try:
        file = open_segment_file(disk, path)
    except (FileNotFoundError, SegmentDamaged):
        return bytearray()  # the table of its compressed form: nothing can be read
    try:
        return file.read(0, file.size)
    except SegmentDamaged:
        return _readable(file)
    finally:
        file.close()


def _readable(file: SegmentFile) -> bytearray:
    """What can be unpacked; zeros, which are no batch, for what cannot."""
    content = bytearray(file.size)
    for position in range(0, file.size, PIECE_BYTES):
        try:
            piece = file.read(position, PIECE_BYTES)
        except SegmentDamaged:
            continue
        content[position : position + len(piece)] = piece
    return content


def read_file(disk: Disk, path: Path) -> bytearray:
    """A file's own bytes."""
    file = disk.open(path)
    try:
        return disk.read(file, 0, disk.size(file))
    finally:
        disk.close(file)


def scan(content: bytearray | bytes, offset: int, anchors: Sequence[int] = ()) -> Iterator[Stretch]:
    """Cut a segment into stretches that follow each other.

    Args:
        offset: the first batch begins there or behind it.
        anchors: positions at which batches begin for certain, ascending. Without them, damage is
            followed by the next place that looks like a batch; a message that contains the bytes of a
            batch could look like one.
    """
    view = memoryview(content)
    position = 0
    while position < len(view):
        try:
            batch = decode_batch(view, position)
            if batch.base_offset < offset:
                raise CorruptBatch("offsets go backwards")
        except CorruptBatch as error:
            damaged = _damaged(content, position, offset, error.reason, anchors)
            position += damaged.size
            offset = offset if damaged.end is None else damaged.end
            yield damaged
        else:
            size = batch_bytes(view, position)
            yield Stretch(position, size, batch, "", batch.base_offset, batch.end_offset)
            position += size
            offset = batch.end_offset


def _damaged(
    content: bytearray | bytes, position: int, offset: int, reason: str, anchors: Sequence[int]
) -> Stretch:
    header = _header(content, position)
    if header is not None and header.base_offset >= offset:
        # The header is whole, so its size and its offsets are true.
        size = min(batch_bytes(content, position), len(content) - position)
        return Stretch(position, size, None, reason, header.base_offset, header.end_offset)
    known = [anchor for anchor in anchors if anchor > position]
    behind = next((at for at in known if _follows(content, at, offset)), None)
    if behind is None:
        behind = _next_header(content, position + BATCH_ALIGNMENT, offset)
    return Stretch(position, behind - position, None, reason, offset, None)


def _next_header(content: bytearray | bytes, at: int, offset: int) -> int:
    while (at := content.find(MAGIC, at)) >= 0:
        if at % BATCH_ALIGNMENT == 0 and _follows(content, at, offset):
            return at
        at += 1
    return len(content)


def _follows(content: bytearray | bytes, at: int, offset: int) -> bool:
    header = _header(content, at)
    return header is not None and header.base_offset >= offset


def _header(content: bytearray | bytes, at: int) -> RecordBatch | None:
    try:
        return decode_header(memoryview(content)[at : at + HEADER_BYTES])
    except CorruptBatch:
        return None
