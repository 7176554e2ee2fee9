"""Scans a whole segment for the operators' tools, which also read behind damage; the broker stops there."""

from collections.abc import Iterator, Sequence
from contextlib import closing
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

PIECE_BYTES = 4_096  # a damaged compressed segment is unpacked in pieces of this size


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of a segment: one whole batch, or damaged bytes.

    Attributes:
        batch: None if the bytes are damaged; `reason` says why.
        end: offset behind the records of a damaged stretch; None: it is not known.
    """

    position: int
    size: int
    batch: RecordBatch | None
    reason: str = ""
    first: int = 0
    end: int | None = None


def read_segment(disk: Disk, path: Path) -> bytearray:
    """Read all batches of a segment, uncompressed; nothing if it is missing or its table is damaged."""
    try:
        with closing(open_segment_file(disk, path)) as file:
            try:
                return file.read(0, file.size)
            except SegmentDamaged:
                return _readable(file)
    except (FileNotFoundError, SegmentDamaged):
        return bytearray()


def _readable(file: SegmentFile) -> bytearray:
    """Unpack piece by piece, with zeros, which are no batch, for damaged pieces."""
    content = bytearray(file.size)
    for position in range(0, file.size, PIECE_BYTES):
        try:
            piece = file.read(position, PIECE_BYTES)
        except SegmentDamaged:
            continue
        content[position : position + len(piece)] = piece
    return content


def scan(content: bytearray | bytes, offset: int, anchors: Sequence[int] = ()) -> Iterator[Stretch]:
    """Cut a segment into adjacent stretches.

    Args:
        offset: lowest base offset of the first batch.
        anchors: positions at which batches are known to begin, ascending. Without them, a damaged stretch ends
            where the next batch seems to begin; a message that contains the bytes of a batch can fake that.
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
        # The header is whole, so its size and offsets can be trusted.
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
