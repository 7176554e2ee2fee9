"""Compressed segments in memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from routelog.log_backend.segments.compressed_segment import CompressedSegment, SegmentPacker


def packed(codec: int, base_offset: int, blocks: Iterable[bytes]) -> bytes:
    """The file of a compressed segment with these blocks."""
    packer = SegmentPacker(codec, base_offset)
    content = bytearray(packer.end)
    for block in blocks:
        content += b"".join(packer.block(block))
        assert len(content) == packer.end
    content += packer.table()
    header = packer.header()
    content[: len(header)] = header
    assert len(content) == packer.file_bytes
    return bytes(content)


def reader(content: bytes) -> CompressedSegment:
    """A reader of a file in memory."""
    return CompressedSegment(lambda at, size: content[at : at + size], len(content))


def pieces_of(cuts: Sequence[tuple[int, int]]) -> int:
    """The length of cuts that follow each other from 0 without a gap."""
    reached = 0
    for start, end in cuts:
        assert start == reached < end
        reached = end
    return reached
