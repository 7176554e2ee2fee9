"""Random segments, compressed: read anywhere as before, and never a wrong record when a byte is damaged."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from unit.log_backend.compressed_bytes import packed, pieces_of, reader
from unit.log_backend.log_records import batch, encoded

from routelog.log_backend.doors.disk import SystemDisk
from routelog.log_backend.records.record_batch import RecordBatch
from routelog.log_backend.segments import compressed_segment
from routelog.log_backend.segments.compressed_segment import LZ4, ZSTD, CorruptCompression
from routelog.log_backend.segments.log_directory import compressed_path, segment_path
from routelog.log_backend.segments.segment import Segment, SegmentDamaged, open_sealed, read_batches

CODECS = st.sampled_from((ZSTD, LZ4))
BODIES = st.one_of(
    st.binary(max_size=300),
    st.builds(lambda text, times: text * times, st.binary(max_size=9), st.integers(0, 3_000)),
)
BATCHES = st.lists(st.lists(BODIES, min_size=1, max_size=6), min_size=1, max_size=30)


class Written:
    """Batches in a segment with small blocks, before and after its compression."""

    def __init__(self, codec: int, contents: list[list[bytes]]) -> None:
        self.batches: list[RecordBatch] = []
        self.segment = Segment(Path("unused"), 5)
        end = 5
        for bodies in contents:
            made = batch(bodies, end)
            self.batches.append(made)
            self.segment.add(made, self.segment.size, made.records.batch_bytes)
            end = made.end_offset
        self.plain = b"".join(map(encoded, self.batches))
        self.cuts = self.segment.blocks()
        self.compressed = packed(codec, 5, [self.plain[start:end] for start, end in self.cuts])


def written(codec: int, contents: list[list[bytes]]) -> Written:
    """With blocks so small that a few batches make several."""
    before = compressed_segment.BLOCK_BYTES
    compressed_segment.BLOCK_BYTES = 6_000
    try:
        return Written(codec, contents)
    finally:
        compressed_segment.BLOCK_BYTES = before


@given(
    codec=CODECS,
    contents=BATCHES,
    places=st.lists(st.tuples(st.floats(0, 1.1), st.floats(0, 1)), max_size=20),
)
def test_anything_read_anywhere_is_as_before(
    codec: int, contents: list[list[bytes]], places: list[tuple[float, float]]
) -> None:
    made = written(codec, contents)
    assert pieces_of(made.cuts) == len(made.plain)
    segment = reader(made.compressed)
    for at, share in places:
        position, size = int(at * len(made.plain)), int(share * len(made.plain))
        assert segment.read(position, size) == made.plain[position : position + size]
    starts = {0}
    for each in made.batches:
        starts.add(max(starts) + each.records.batch_bytes)
    assert {start for start, _ in made.cuts} <= starts, "a batch is in two blocks"


@settings(deadline=None)
@given(
    codec=CODECS,
    contents=BATCHES,
    damages=st.lists(
        st.tuples(st.floats(0, 1, exclude_max=True), st.integers(1, 255)), max_size=20
    ),
)
def test_a_damaged_byte_never_gives_a_wrong_record(
    codec: int, contents: list[list[bytes]], damages: list[tuple[float, int]]
) -> None:
    made = written(codec, contents)
    disk = SystemDisk()
    with tempfile.TemporaryDirectory() as folder:
        path = segment_path(Path(folder), 5)
        for place, bits in damages:
            content = bytearray(made.compressed)
            content[int(place * len(content))] ^= bits
            compressed_path(path).write_bytes(content)
            found = _readable(disk, path, made)
            assert found < len(made.batches), "the damage was not noticed"


def _readable(disk: SystemDisk, path: Path, made: Written) -> int:
    """How many batches are found one by one; each one is the right one, or it is reported."""
    found = 0
    for each in made.batches:
        try:
            segment = open_sealed(disk, path, 5, 1 << 40).segment
            position = segment.position_of(each.base_offset)
            batches = read_batches(disk, path, position, segment.size, each.base_offset)
        except SegmentDamaged:
            continue
        if not batches:
            continue  # its table is damaged: nothing was found in it
        first = batches[0]
        assert encoded(first) == encoded(each)
        found += 1
    return found


@given(codec=CODECS, noise=st.binary(max_size=400))
def test_noise_is_no_compressed_segment(codec: int, noise: bytes) -> None:
    try:
        reader(noise)
    except CorruptCompression:
        return
    raise AssertionError("noise was taken for a segment")
