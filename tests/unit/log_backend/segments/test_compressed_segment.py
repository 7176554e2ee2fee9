"""The compressed form of a segment: what goes in comes out, and damage is noticed."""

from __future__ import annotations

import random
import struct

import lz4.block
import pytest
import zstandard
from unit.log_backend.compressed_bytes import packed, pieces_of, reader

from routelog.log_backend.records.record_batch import crc32c
from routelog.log_backend.segments import compressed_segment
from routelog.log_backend.segments.compressed_segment import (
    BLOCK_BYTES,
    CODECS,
    ENTRY_BYTES,
    HEADER_BYTES,
    LZ4,
    RATIO_MAX,
    ZSTD,
    CodecFailed,
    CompressedSegment,
    CorruptCompression,
    SegmentPacker,
    cut_blocks,
)

TEXT = [b"block %d " % number * (200 + number) for number in range(5)]


@pytest.fixture(params=list(CODECS.values()), ids=list(CODECS))
def codec(request: pytest.FixtureRequest) -> int:
    """Each codec."""
    number: int = request.param
    return number


def test_every_stretch_reads_as_before(codec: int) -> None:
    plain = b"".join(TEXT)
    segment = reader(packed(codec, 77, TEXT))
    assert (segment.codec, segment.base_offset, segment.size) == (codec, 77, len(plain))
    for position in range(0, len(plain) + 10, 97):
        for size in (0, 1, 64, 2_000, len(plain)):
            assert segment.read(position, size) == plain[position : position + size]


def test_blocks_that_do_not_get_smaller_are_stored_as_they_are(codec: int) -> None:
    noise = random.Random(1).randbytes(5_000)
    content = packed(codec, 0, [TEXT[0], noise])
    segment = reader(content)
    assert [block.stored_length == block.length for block in segment.blocks] == [False, True]
    assert noise in content
    assert segment.read(0, segment.size) == TEXT[0] + noise


def test_a_large_block_takes_a_share_of_its_length_in_the_file(codec: int) -> None:
    zeros = bytes(BLOCK_BYTES * 4)
    (block,) = reader(packed(codec, 0, [zeros])).blocks
    assert block.stored_length * RATIO_MAX >= block.length
    assert reader(packed(codec, 0, [zeros])).read(5, len(zeros)) == zeros[5:]


def test_a_segment_without_batches_is_one() -> None:
    segment = reader(packed(ZSTD, 3, []))
    assert (segment.size, segment.blocks, segment.read(0, 10)) == (0, [], b"")


def test_only_the_blocks_that_are_needed_are_unpacked(codec: int) -> None:
    content = bytearray(packed(codec, 0, TEXT))
    damaged = reader(bytes(content)).blocks[3]
    content[damaged.file_offset + ENTRY_BYTES] ^= 1
    segment = reader(bytes(content))
    assert segment.read(0, damaged.position) == b"".join(TEXT[:3])
    with pytest.raises(CorruptCompression, match="the block fails its checksum") as caught:
        segment.read(damaged.position, 1)
    assert caught.value.file_offset == damaged.file_offset
    with pytest.raises(CorruptCompression):
        segment.read(0, segment.size)


def read_whole(content: bytes) -> None:
    """Read every block of a segment."""
    segment = reader(content)
    segment.read(0, segment.size)


def test_every_flipped_byte_is_noticed(codec: int) -> None:
    content = packed(codec, 5, TEXT[:3])
    for at in range(len(content)):
        damaged = bytearray(content)
        damaged[at] ^= 1 << at % 8
        with pytest.raises(CorruptCompression):  # a damaged header, or else a damaged block
            read_whole(bytes(damaged))


def test_every_truncation_and_anything_behind_the_end_is_noticed(codec: int) -> None:
    content = packed(codec, 5, TEXT[:2])
    for size in range(len(content)):
        with pytest.raises(CorruptCompression):
            reader(content[:size])
    with pytest.raises(CorruptCompression, match="bytes, not"):
        reader(content + b"\0")


def test_a_file_that_gets_shorter_while_it_is_read_is_noticed(codec: int) -> None:
    content = bytearray(packed(codec, 5, TEXT))
    segment = CompressedSegment(lambda at, size: bytes(content[at : at + size]), len(content))
    del content[HEADER_BYTES + 20 :]
    with pytest.raises(CorruptCompression):
        segment.read(0, 10)


# What somebody writes who can compute checksums


def forged(
    entries: list[tuple[int, int, int, int]],
    contents: list[bytes],
    *,
    codec: int = ZSTD,
    size: int,
    count: int | None = None,
    file_bytes: int | None = None,
    reserved: int = 0,
) -> bytes:
    blocks = b"".join(
        struct.pack("<IIII", *entry) + content
        for entry, content in zip(entries, contents, strict=True)
    )
    table = b"".join(struct.pack("<IIII", *entry) for entry in entries)
    if file_bytes is None:
        file_bytes = HEADER_BYTES + len(blocks) + len(table)
    count = len(entries) if count is None else count
    checked = struct.pack("<IIQQQII", codec, count, 0, size, file_bytes, crc32c(table), reserved)
    return b"RLZ1" + struct.pack("<I", crc32c(checked)) + checked + blocks + table


def entry(content: bytes, length: int, position: int = 0) -> tuple[int, int, int, int]:
    return position, length, len(content), crc32c(content)


@pytest.fixture
def allocations(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Lengths for which a codec was asked to make room."""
    asked: list[int] = []
    make = compressed_segment._unpacker

    def noting(codec: int) -> object:
        unpack = make(codec)

        def unpacked(content: bytes, length: int) -> bytes:
            asked.append(length)
            return unpack(content, length)

        return unpacked

    monkeypatch.setattr(compressed_segment, "_unpacker", noting)
    return asked


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS.keys())
def test_a_block_that_claims_more_than_its_share_is_refused_unread(
    codec: int, allocations: list[int]
) -> None:
    length = 600 * 1024 * 1024
    content = zstandard.compress(b"a") if codec == ZSTD else b"\0" * 10
    for claimed in (length, 2**32 - 1, BLOCK_BYTES + 1):
        bomb = forged([entry(content, claimed)], [content], codec=codec, size=claimed)
        with pytest.raises(CorruptCompression, match="an entry that cannot be"):
            reader(bomb)
    assert allocations == []


def test_a_frame_that_is_larger_than_its_entry_is_not_unpacked() -> None:
    frame = zstandard.compress(bytes(64 * 1024 * 1024))
    segment = reader(forged([entry(frame, 4_096)], [frame], size=4_096))
    with pytest.raises(CorruptCompression, match="another length than the table's"):
        segment.read(0, 1)


def test_a_frame_that_does_not_tell_its_size_is_not_unpacked() -> None:
    frame = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(100_000))
    segment = reader(forged([entry(frame, 4_096)], [frame], size=4_096))
    with pytest.raises(CorruptCompression):
        segment.read(0, 1)


def test_an_lz4_block_of_another_length_is_refused() -> None:
    content = lz4.block.compress(bytes(1_000), store_size=False)
    for length in (999, 1_001):
        segment = reader(forged([entry(content, length)], [content], codec=LZ4, size=length))
        with pytest.raises(CorruptCompression):
            segment.read(0, 1)


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS.keys())
def test_noise_with_the_right_checksum_is_refused(codec: int) -> None:
    noise = random.Random(2).randbytes(500)
    segment = reader(forged([entry(noise, 1_000)], [noise], codec=codec, size=1_000))
    with pytest.raises(CorruptCompression):
        segment.read(0, 1)


@pytest.mark.parametrize(
    ("lie", "reason"),
    [
        ({"count": 2**32 - 1}, "no room for its table"),
        ({"count": 2}, "no room for its table"),
        ({"codec": 3}, "field out of range"),
        ({"size": 2**40}, "field out of range"),
        ({"size": 11}, "sizes do not add up"),
        ({"reserved": 1}, "field out of range"),
        ({"file_bytes": 2**60}, "bytes, not"),
    ],
)
def test_a_header_that_lies_is_refused(lie: dict[str, int], reason: str) -> None:
    content = b"0123456789"
    with pytest.raises(CorruptCompression, match=reason):
        reader(forged([entry(content, 10)], [content], **{"size": 10} | lie))


def test_entries_that_overlap_or_leave_gaps_are_refused() -> None:
    content = b"0123456789"
    for position in (0, 9, 11):
        entries = [entry(content, 10), entry(content, 10, position)]
        with pytest.raises(CorruptCompression, match="an entry that cannot be"):
            reader(forged(entries, [content, content], size=20))
    empty = [entry(b"", 0)]
    with pytest.raises(CorruptCompression, match="an entry that cannot be"):
        reader(forged(empty, [b""], size=0))


# Writing


def test_a_codec_that_does_not_give_back_its_input_is_noticed(
    codec: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compressed_segment, "_compressor", lambda codec: lambda raw: b"short")
    with pytest.raises(CodecFailed):
        SegmentPacker(codec, 0).block(TEXT[0])


def test_blocks_are_cut_where_batches_begin() -> None:
    step = BLOCK_BYTES // 4 + 1
    positions = [number * step for number in range(10)]
    cuts = cut_blocks(positions, 10 * step)
    assert [start for start, _ in cuts] == positions[::3]
    assert pieces_of(cuts) == 10 * step
    assert all(end - start <= BLOCK_BYTES for start, end in cuts)


def test_a_large_batch_is_not_cut() -> None:
    size = 3 * BLOCK_BYTES
    assert cut_blocks([0, 5_000, 5_000 + size], size + 6_000) == [
        (0, 5_000),
        (5_000, 5_000 + size),
        (5_000 + size, size + 6_000),
    ]


def test_a_segment_smaller_than_a_block_is_one_block_and_an_empty_one_none() -> None:
    assert cut_blocks([0, 4_096, 8_192], 9_000) == [(0, 9_000)]
    assert cut_blocks([], 100) == [(0, 100)]
    assert cut_blocks([], 0) == []
