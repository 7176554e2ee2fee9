"""A segment file: which batches it holds, where it ends, and what an index is worth."""

from pathlib import Path

import pytest
from unit.log_backend.compressed_bytes import packed
from unit.spark_bridge.log_files import LogFiles, batch_bytes, numbered, records, write_index

from log_backend.compressed_segment import CODECS
from log_backend.log_directory import compressed_path
from spark_bridge.errors import DamagedSegment
from spark_bridge.segment_file import STRETCH_BYTES, SegmentFile


@pytest.fixture
def log(tmp_path: Path) -> LogFiles:
    return LogFiles(tmp_path)


def offsets(path: Path, position: int = 0) -> list[int]:
    with SegmentFile(path) as segment:
        return [batch.base_offset for batch in segment.batches(position)]


def test_batches_follow_each_other_to_the_end_of_the_file(log: LogFiles) -> None:
    assert offsets(log.numbered_segment(7, 3, 1, 2)) == [7, 10, 11]


def test_an_empty_file_has_no_batches(log: LogFiles) -> None:
    path = log.segment(7)
    assert offsets(path) == []
    with SegmentFile(path) as segment:
        assert segment.valid_end() == (7, 0)


def test_a_batch_larger_than_a_stretch_is_read_whole(log: LogFiles) -> None:
    large = records([b"x" * STRETCH_BYTES, b"", b"y"])
    path = log.segment(0, (0, numbered(0, 2)), (2, large), (5, large), (8, numbered(8, 2)))
    with SegmentFile(path) as segment:
        payloads = [bytes(batch.records.payload) for batch in segment.batches()]
    assert payloads[1:3] == [bytes(large.payload)] * 2
    assert payloads[3] == bytes(numbered(8, 2).payload)


def test_batches_across_the_border_of_a_stretch_are_read_whole(log: LogFiles) -> None:
    counts = [1_000] * 100
    path = log.numbered_segment(0, *counts)
    assert path.stat().st_size > STRETCH_BYTES
    assert offsets(path) == list(range(0, 100_000, 1_000))


@pytest.mark.parametrize(
    "tail",
    [
        bytes(4096),
        b"\xff" * 100,
        batch_bytes(numbered(5, 9), 5)[:-1],
        batch_bytes(numbered(5, 9), 5)[:30],
        batch_bytes(numbered(5, 9), 5)[:64] + bytes(500),
        batch_bytes(numbered(0, 9), 0),  # of an earlier life of the file
    ],
    ids=["zeros", "noise", "cut payload", "cut header", "unwritten payload", "stale batch"],
)
def test_the_valid_end_is_behind_the_last_whole_batch(log: LogFiles, tail: bytes) -> None:
    whole = log.numbered_segment(0, 2, 3).stat().st_size
    path = log.numbered_segment(0, 2, 3, tail=tail)
    with SegmentFile(path) as segment:
        assert segment.valid_end() == (5, whole)
    with pytest.raises(DamagedSegment) as caught:
        offsets(path)
    assert (caught.value.path, caught.value.position) == (path, whole)


def test_every_flipped_byte_of_a_batch_is_noticed(log: LogFiles) -> None:
    path = log.numbered_segment(0, 2)
    data = path.read_bytes()
    for at in range(len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 1
        path.write_bytes(damaged)
        with pytest.raises(DamagedSegment):
            offsets(path)


def test_a_batch_is_found_by_any_offset_it_holds(log: LogFiles) -> None:
    path = log.numbered_segment(10, 3, 1, 2)
    with SegmentFile(path) as segment:
        found = [
            next(iter(segment.batches(segment.position_of(offset)))).base_offset
            for offset in range(10, 16)
        ]
        assert found == [10, 10, 10, 13, 14, 14]
        assert segment.position_of(16) == path.stat().st_size


def test_in_a_gap_the_next_batch_is_found(log: LogFiles) -> None:
    path = log.segment(0, (0, numbered(0, 2)), (50, numbered(50, 2)))
    with SegmentFile(path) as segment:
        assert next(iter(segment.batches(segment.position_of(30)))).base_offset == 50


def test_an_index_spares_the_walk_through_what_lies_before(log: LogFiles) -> None:
    first = len(batch_bytes(numbered(0, 3), 0))
    path = log.numbered_segment(0, 3, 4)
    write_index(path, [(0, 0), (3, first)])
    data = bytearray(path.read_bytes())
    data[:64] = bytes(64)  # the walk would stop here
    path.write_bytes(data)
    with SegmentFile(path) as segment:
        assert segment.position_of(5) == first
        with pytest.raises(DamagedSegment):
            segment.position_of(2)


@pytest.mark.parametrize(
    "entries",
    [
        [],
        [(0, 0), (3, 8)],
        [(0, 0), (3, 1_000_000)],
        [(0, 200)],
        [(9, 9), (1, 1), (0, 0), (0, 0)],
        [(0, 0), (1, 408)],
    ],
)
def test_an_index_that_lies_costs_time_but_no_records(
    log: LogFiles, entries: list[tuple[int, int]]
) -> None:
    path = log.numbered_segment(0, 3, 4, 5)
    write_index(path, entries)
    with SegmentFile(path) as segment:
        found = [
            next(iter(segment.batches(segment.position_of(offset)))).base_offset
            for offset in range(12)
        ]
    assert found == [0] * 3 + [3] * 4 + [7] * 5


def test_half_an_index_entry_at_the_end_is_ignored(log: LogFiles) -> None:
    path = log.numbered_segment(0, 3, 4)
    path.with_suffix(".index").write_bytes(bytes(16) + b"\x03\x00\x00")
    with SegmentFile(path) as segment:
        assert segment.position_of(0) == 0


@pytest.fixture(params=CODECS.values(), ids=CODECS.keys())
def compressed(log: LogFiles, request: pytest.FixtureRequest) -> Path:
    """A segment of three batches from offset 7 that a broker has compressed; its first path."""
    path = log.numbered_segment(7, 300, 100, 200)
    data = path.read_bytes()
    cut = len(batch_bytes(numbered(7, 300), 7))
    compressed_path(path).write_bytes(packed(request.param, 7, [data[:cut], data[cut:]]))
    path.unlink()
    return path


def test_a_compressed_segment_has_the_same_batches(compressed: Path) -> None:
    assert offsets(compressed) == [7, 307, 407]
    with SegmentFile(compressed) as segment:
        end_offset, end = segment.valid_end()
        assert end_offset == 607
        assert segment.position_of(10_000) == end
        for offset, base in ((7, 7), (306, 7), (307, 307), (600, 407)):
            assert next(iter(segment.batches(segment.position_of(offset)))).base_offset == base


def test_every_flipped_byte_of_a_compressed_segment_is_noticed(compressed: Path) -> None:
    path = compressed_path(compressed)
    data = path.read_bytes()
    for at in range(len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 1
        path.write_bytes(damaged)
        with pytest.raises(DamagedSegment) as caught:
            offsets(compressed)
        assert caught.value.path == path


def test_a_compressed_segment_of_another_name_is_refused(compressed: Path) -> None:
    other = compressed.with_stem("8".zfill(20))
    compressed_path(compressed).rename(compressed_path(other))
    with pytest.raises(DamagedSegment, match="names another segment"):
        SegmentFile(other)
