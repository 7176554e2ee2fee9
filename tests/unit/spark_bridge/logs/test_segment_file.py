"""A segment file: which batches it holds, where it ends, and what an index is worth."""

from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support.sampling import examples
from unit.log_backend.compressed_bytes import packed
from unit.log_backend.partitions.test_quarantine import flip
from unit.spark_bridge.log_files import LogFiles, batch_bytes, numbered, records, write_index

from routelog.log_backend.segments.compressed_segment import CODECS
from routelog.log_backend.segments.log_directory import compressed_path
from routelog.log_backend.segments.segment_index import SegmentIndex
from routelog.spark_bridge.logs.errors import DamagedSegment
from routelog.spark_bridge.logs.readable_logs import Cut
from routelog.spark_bridge.logs.segment_file import STRETCH_BYTES, SegmentFile


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


def test_every_flipped_byte_of_a_batch_is_noticed(log: LogFiles) -> None:
    path = log.numbered_segment(0, 2)
    for at in range(path.stat().st_size):
        flip(path, at)
        with pytest.raises(DamagedSegment):
            offsets(path)
        flip(path, at)
    assert offsets(path) == [0]


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


def test_a_hint_spares_the_walk_as_an_index_does(log: LogFiles) -> None:
    first = len(batch_bytes(numbered(0, 3), 0))
    path = log.numbered_segment(0, 3, 4)
    data = bytearray(path.read_bytes())
    data[:64] = bytes(64)  # the walk would stop here
    path.write_bytes(data)
    with SegmentFile(path) as segment:
        assert segment.position_of(5, hint=first) == first


@pytest.mark.parametrize("hint", [1, 64, 408, 1_000_000])
def test_a_hint_that_lies_costs_time_but_no_records(log: LogFiles, hint: int) -> None:
    path = log.numbered_segment(0, 3, 4, 5)
    with SegmentFile(path) as segment:
        found = [
            next(iter(segment.batches(segment.position_of(offset, hint)))).base_offset
            for offset in range(12)
        ]
    assert found == [0] * 3 + [3] * 4 + [7] * 5


def test_a_time_is_found_with_and_without_an_index(log: LogFiles) -> None:
    times = {0: 10, 3: 20, 6: 20, 9: 35}
    contents = [(at, records([b"%d" % at] * 3, time=time)) for at, time in times.items()]
    path = log.segment(0, *contents)
    index = SegmentIndex(path.stat().st_size, 12, 12)
    for at, content in contents[:3]:
        index.offsets.append(at)
        index.positions.append(at // 3 * len(batch_bytes(content, at)))
        index.times.append(content.time)
    for files in ((), index.encode()):
        for suffix, data in zip((".index", ".timeindex"), files, strict=False):
            path.with_suffix(suffix).write_bytes(data)
        with SegmentFile(path) as segment:
            found = [segment.offset_at(time) for time in (0, 10, 11, 20, 21, 35, 36)]
        assert found == [0, 0, 3, 3, 9, 9, None]


def cut(path: Path, start: int, end: int, bytes_max: int) -> Cut:
    with SegmentFile(path) as segment:
        return segment.cut(start, end, bytes_max)


def test_a_range_is_cut_where_bodies_add_up_to_the_limit(log: LogFiles) -> None:
    bodies = [b"x" * size for size in (5, 0, 3, 7)]
    path = log.segment(0, (0, records(bodies)), (10, records(bodies)), tail=bytes(4096))
    assert cut(path, 0, 14, 30) == Cut(14, 30)
    assert cut(path, 0, 14, 29) == Cut(13, 23)
    assert cut(path, 0, 14, 20) == Cut(12, 20)
    assert cut(path, 0, 14, 15) == Cut(10, 15)
    assert cut(path, 0, 14, 7) == Cut(2, 5)
    assert cut(path, 2, 12, 100) == Cut(12, 15)
    assert cut(path, 3, 11, 7) == Cut(10, 7)
    assert cut(path, 3, 14, 12) == Cut(12, 12)


def test_a_cut_takes_one_record_at_least(log: LogFiles) -> None:
    path = log.segment(0, (0, records([b"x" * 50, b"y"])), (7, records([b"z" * 9])))
    assert cut(path, 0, 8, 10) == Cut(1, 50)
    assert cut(path, 1, 8, 9) == Cut(7, 1)
    assert cut(path, 3, 8, 1) == Cut(8, 9)


@settings(max_examples=examples(50))  # each writes a file
@given(
    batches=st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=5), min_size=1, max_size=5),
    bounds=st.tuples(st.integers(0, 24), st.integers(0, 24)),
    bytes_max=st.integers(0, 60),
)
def test_a_cut_is_what_counting_each_record_gives(
    tmp_path_factory: pytest.TempPathFactory,
    batches: list[list[int]],
    bounds: tuple[int, int],
    bytes_max: int,
) -> None:
    log = LogFiles(tmp_path_factory.mktemp("cut"))
    sizes = [size for batch in batches for size in batch]
    start, end = sorted(min(bound, len(sizes)) for bound in bounds)
    assume(start < end)
    at, contents = 0, []
    for batch in batches:
        contents.append((at, records([b"x" * size for size in batch])))
        at += len(batch)
    taken = start
    while taken < end and (taken == start or sum(sizes[start : taken + 1]) <= bytes_max):
        taken += 1
    assert cut(log.segment(0, *contents), start, end, bytes_max) == Cut(
        taken, sum(sizes[start:taken])
    )


def test_half_an_index_entry_at_the_end_is_ignored(log: LogFiles) -> None:
    path = log.numbered_segment(0, 3, 4)
    path.with_suffix(".index").write_bytes(bytes(16) + b"\x03\x00\x00")
    with SegmentFile(path) as segment:
        assert segment.position_of(0) == 0


@pytest.fixture(params=list(CODECS.values()), ids=list(CODECS))
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
        end = segment.position_of(10_000)
        assert sum(batch.records.batch_bytes for batch in segment.batches()) == end
        for offset, base in ((7, 7), (306, 7), (307, 307), (600, 407)):
            assert next(iter(segment.batches(segment.position_of(offset)))).base_offset == base


def test_every_flipped_byte_of_a_compressed_segment_is_noticed(compressed: Path) -> None:
    path = compressed_path(compressed)
    for at in range(path.stat().st_size):
        flip(path, at)
        with pytest.raises(DamagedSegment) as caught:
            offsets(compressed)
        assert caught.value.path == path
        flip(path, at)
    assert offsets(compressed)


def test_a_compressed_segment_of_another_name_is_refused(compressed: Path) -> None:
    other = compressed.with_stem("8".zfill(20))
    compressed_path(compressed).rename(compressed_path(other))
    with pytest.raises(DamagedSegment, match="names another segment"):
        SegmentFile(other)
