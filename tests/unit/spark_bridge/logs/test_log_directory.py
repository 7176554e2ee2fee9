"""The logs in a data directory: what is there, how far it reaches, and reading ranges of it."""

from pathlib import Path

import pytest
from unit.log_backend.compressed_bytes import packed
from unit.spark_bridge.log_files import LogFiles, batch_bytes, numbered, records

from routelog.log_backend.segments.compressed_segment import ZSTD
from routelog.log_backend.segments.log_directory import EXCHANGE_MARK, compressed_path, segment_path
from routelog.spark_bridge.columns.row_group import row_groups
from routelog.spark_bridge.logs.errors import BadOption, DamagedSegment, RecordsLost
from routelog.spark_bridge.logs.log_directory import LogDirectory
from routelog.spark_bridge.logs.newest_segment import NewestSegment
from routelog.spark_bridge.logs.readable_logs import Cut, LogPartition, OffsetRange

AUDIT = LogPartition("/", "audit", 0)


def spans(log: LogFiles) -> list[tuple[int, int]]:
    return [(each.start, each.end) for each in LogDirectory(log.data).extents(AUDIT)]


def read(log: LogFiles, start: int, end: int, *, lost_is_error: bool = True) -> list[int]:
    """Offsets of a range that have a record, in the order read."""
    wanted = OffsetRange(AUDIT, start, end, 0)
    batches = LogDirectory(log.data).read(wanted, lost_is_error=lost_is_error)
    held = [at for batch in batches for at in range(batch.base_offset, batch.end_offset)]
    return [at for at in held if start <= at < end]


@pytest.fixture
def log(tmp_path: Path) -> LogFiles:
    return LogFiles(tmp_path)


def test_a_path_without_logs_is_no_data_directory(tmp_path: Path) -> None:
    with pytest.raises(BadOption, match="option path: no broker's data directory"):
        LogDirectory(tmp_path)


@pytest.mark.parametrize(
    ("vhost", "queue"),
    [("/", "audit"), ("a/b", "x-1-2"), ("..", "."), ("é %2F", "ü/../~"), ("v", "-"), ("v", "q-0")],
)
def test_names_are_found_however_odd(tmp_path: Path, vhost: str, queue: str) -> None:
    LogFiles(tmp_path, queue, 3, vhost=vhost).numbered_segment(0, 2)
    store = LogDirectory(tmp_path)
    expected = [LogPartition(vhost, queue, 3)]
    assert store.vhosts() == [vhost]
    assert store.partitions(vhost, None) == expected
    assert store.partitions(vhost, {queue, "another"}) == expected
    assert store.extents(expected[0])[0].end == 2


@pytest.mark.parametrize("exchange", ["later", "x" * 250])
def test_what_an_exchange_holds_is_no_queue(tmp_path: Path, exchange: str) -> None:
    LogFiles(tmp_path, EXCHANGE_MARK + exchange).numbered_segment(0, 2)
    LogFiles(tmp_path, "audit").numbered_segment(0, 2)
    assert LogDirectory(tmp_path).partitions("/", None) == [AUDIT]


def test_a_queue_with_a_shortened_directory_name_is_found_by_name_only(tmp_path: Path) -> None:
    queue = "ü" * 100
    LogFiles(tmp_path, queue).numbered_segment(0, 2)
    store = LogDirectory(tmp_path)
    assert store.partitions("/", {queue}) == [LogPartition("/", queue, 0)]
    with pytest.raises(BadOption, match=r"option subscribePattern: .* too long"):
        store.partitions("/", None)


def test_other_entries_beside_the_partitions_are_not_taken_for_them(log: LogFiles) -> None:
    for name in ("audit", "audit-", "audit-0.divergent", "strange name-0"):
        (log.directory.parent / name).mkdir()
    assert LogDirectory(log.data).partitions("/", None) == [AUDIT]


def test_a_vhost_without_a_directory_has_no_partitions(log: LogFiles) -> None:
    assert LogDirectory(log.data).partitions("other", None) == []


def test_a_log_without_segments_is_empty(log: LogFiles) -> None:
    assert spans(log) == [(0, 0)]


def test_extents_are_the_segments_and_end_behind_the_last_record(log: LogFiles) -> None:
    log.numbered_segment(5, 3, 2)
    log.numbered_segment(10, 4)
    log.numbered_segment(20, 4, 1, tail=bytes(4096))
    (log.directory / "00000000000000000020.index").write_bytes(bytes(8))
    assert spans(log) == [(5, 10), (10, 20), (20, 25)]


def test_the_estimate_leaves_out_what_is_only_preallocated(log: LogFiles) -> None:
    size = log.numbered_segment(0, 10).stat().st_size
    log.numbered_segment(0, 10, tail=bytes(1_000_000))
    assert LogDirectory(log.data).extents(AUDIT)[0].bytes_estimate == size


@pytest.mark.parametrize(("start", "end"), [(0, 13), (0, 1), (4, 5), (2, 11), (9, 13), (6, 6)])
def test_a_range_is_read_across_segments(log: LogFiles, start: int, end: int) -> None:
    log.numbered_segment(0, 3, 2)
    log.numbered_segment(5, 3, 1)
    log.numbered_segment(9, 4, tail=bytes(100))
    assert read(log, start, end) == list(range(start, end))


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [(0, 63, [0, 1, 40, 41, 60, 61, 62]), (2, 40, []), (1, 41, [1, 40]), (0, 30, [0, 1])],
)
def test_offsets_that_were_never_stored_are_not_missed(
    log: LogFiles, start: int, end: int, expected: list[int]
) -> None:
    log.segment(0, (0, numbered(0, 2)), (40, numbered(40, 2)))
    log.numbered_segment(60, 3)
    assert read(log, start, end) == expected


def test_a_gap_before_the_end_of_a_range_in_the_newest_segment_is_no_loss(log: LogFiles) -> None:
    log.segment(0, (0, numbered(0, 2)), (40, numbered(40, 2)))
    assert read(log, 0, 30) == [0, 1]


def test_nothing_is_read_behind_the_end_of_the_range(log: LogFiles) -> None:
    log.numbered_segment(0, 3, tail=b"\xff" * 1000)
    assert read(log, 0, 3) == [0, 1, 2]


def test_damage_in_a_sealed_segment_names_file_and_position(log: LogFiles) -> None:
    first = len(batch_bytes(numbered(0, 3), 0))
    path = log.numbered_segment(0, 3, 3)
    data = bytearray(path.read_bytes())
    data[-9] ^= 0xFF
    path.write_bytes(data)
    log.numbered_segment(6, 1)
    with pytest.raises(DamagedSegment) as caught:
        read(log, 0, 7)
    assert (caught.value.path, caught.value.position) == (path, first)
    assert str(path) in str(caught.value)
    assert read(log, 6, 7) == [6]


@pytest.mark.parametrize("tail", [bytes(64), b"RLB1", b"x"])
def test_a_tail_on_a_sealed_segment_is_damage(log: LogFiles, tail: bytes) -> None:
    log.numbered_segment(0, 3, tail=tail)
    log.numbered_segment(8, 1)
    with pytest.raises(DamagedSegment):
        read(log, 0, 9)


def test_a_sealed_segment_cut_inside_a_skipped_batch_is_damage(log: LogFiles) -> None:
    path = log.numbered_segment(0, 3, 3)
    path.write_bytes(path.read_bytes()[:-8])
    log.numbered_segment(9, 1)
    with pytest.raises(DamagedSegment, match="cut off"):
        read(log, 7, 10)


def test_offsets_older_than_the_log_are_lost_and_named(log: LogFiles) -> None:
    log.numbered_segment(10, 3)
    with pytest.raises(RecordsLost, match="offsets 4 to 9 of partition 0 of queue 'audit'"):
        read(log, 4, 13)
    assert read(log, 4, 13, lost_is_error=False) == [10, 11, 12]


def test_a_log_that_ends_before_the_range_has_lost_records(log: LogFiles) -> None:
    log.numbered_segment(0, 3)
    with pytest.raises(RecordsLost) as caught:
        read(log, 0, 5)
    assert (caught.value.start, caught.value.end) == (3, 5)
    assert read(log, 0, 5, lost_is_error=False) == [0, 1, 2]


def test_a_log_that_is_gone_has_lost_the_whole_range(log: LogFiles) -> None:
    log.directory.rmdir()
    with pytest.raises(RecordsLost) as caught:
        read(log, 2, 5)
    assert (caught.value.start, caught.value.end) == (2, 5)
    assert read(log, 2, 5, lost_is_error=False) == []


def test_a_segment_removed_while_a_range_is_read_is_a_loss(log: LogFiles) -> None:
    log.numbered_segment(0, 3)
    second = log.numbered_segment(3, 3)
    log.numbered_segment(6, 3)
    for lost_is_error in (True, False):
        batches = LogDirectory(log.data).read(
            OffsetRange(AUDIT, 0, 9, 0), lost_is_error=lost_is_error
        )
        assert next(batches).base_offset == 0
        second.unlink(missing_ok=True)
        if lost_is_error:
            with pytest.raises(RecordsLost):
                list(batches)
            log.numbered_segment(3, 3)
        else:
            assert [batch.base_offset for batch in batches] == [6]


def test_a_segment_that_compaction_replaces_while_a_range_is_read_is_no_loss(
    log: LogFiles,
) -> None:
    old = [log.numbered_segment(base, 3) for base in (0, 3, 6)]
    log.numbered_segment(9, 3)
    store = LogDirectory(log.data)
    batches = store.read(OffsetRange(AUDIT, 0, 12, 0))
    assert next(batches).base_offset == 0
    compacted = segment_path(log.directory, 0, 1)
    content = log.numbered_segment(7, 1)
    content.rename(compacted)
    old[1].unlink()  # the others stay for a moment
    groups = row_groups(OffsetRange(AUDIT, 3, 12, 0), batches)
    rows = [
        (each.batch.base_offset, each.first, each.stop) for group in groups for each in group.slices
    ]
    # The old segment still has offset 8.
    assert rows == [(7, 0, 1), (6, 2, 3), (9, 0, 3)]
    for path in (old[0], old[2]):
        path.unlink()
    assert read(log, 0, 12) == [7, 9, 10, 11]
    assert read(log, 8, 10) == [9]
    assert [each.start for each in store.extents(AUDIT)] == [0, 9]


def test_compressed_segments_are_found_and_read_among_others(log: LogFiles) -> None:
    paths = [log.numbered_segment(0, 300, 200), log.numbered_segment(500, 300)]
    log.numbered_segment(800, 4)
    data = paths[0].read_bytes()
    compressed_path(paths[0]).write_bytes(packed(ZSTD, 0, [data]))
    paths[0].unlink()
    compressed_path(paths[1]).write_bytes(packed(ZSTD, 500, [paths[1].read_bytes()]))  # both forms
    first, second, third = LogDirectory(log.data).extents(AUDIT)
    assert (first.start, second.start, third.start, third.end) == (0, 500, 800, 804)
    assert first.bytes_estimate == compressed_path(paths[0]).stat().st_size < len(data)
    assert read(log, 0, 804) == list(range(804))


def test_the_end_of_a_growing_log_is_found_across_new_segments(log: LogFiles) -> None:
    store = LogDirectory(log.data)
    log.numbered_segment(0, 2)
    assert store.extents(AUDIT)[-1].end == 2
    log.numbered_segment(0, 2, 3)
    log.numbered_segment(5, 1)
    assert [(each.start, each.end) for each in store.extents(AUDIT)] == [(0, 5), (5, 6)]


def test_the_place_of_a_range_in_the_newest_segment_is_known(log: LogFiles) -> None:
    log.numbered_segment(0, 3)
    log.numbered_segment(3, *[1_000] * 100)
    store = LogDirectory(log.data)
    sealed, newest = store.extents(AUDIT)
    late = OffsetRange(AUDIT, 90_000, newest.end, 0)
    assert store.located(sealed).position_hint == 0
    assert store.located(newest).position_hint == 0
    assert store.located(late).position_hint > 0
    assert LogDirectory(log.data).located(late) == late
    first = next(iter(store.read(store.located(late))))
    assert first.base_offset <= 90_000 < first.end_offset


def test_times_are_found_in_any_segment(log: LogFiles) -> None:
    for at, time in ((0, 10), (4, 20), (8, 30)):
        bodies = [b"a", b"b"]
        log.segment(at, (at, records(bodies, time=time)), (at + 2, records(bodies, time=time + 5)))
    store = LogDirectory(log.data)
    found = [store.offset_at(AUDIT, time) for time in (0, 10, 15, 16, 20, 30, 35, 36)]
    assert found == [0, 0, 2, 4, 4, 8, 10, None]


def test_a_time_is_not_found_in_a_torn_tail_or_an_empty_log(log: LogFiles) -> None:
    assert LogDirectory(log.data).offset_at(AUDIT, 0) is None
    torn = batch_bytes(records([b"b"], time=20), 1)[:-1]
    log.segment(0, (0, records([b"a"], time=10)), tail=torn)
    assert LogDirectory(log.data).offset_at(AUDIT, 20) is None


@pytest.mark.parametrize("tail", [b"", bytes(4096), b"RLB1 and what else is being written"])
def test_times_are_found_while_the_newest_segment_has_no_record(log: LogFiles, tail: bytes) -> None:
    log.segment(0, (0, records([b"a"], time=10)), (1, records([b"b"], time=20)))
    log.segment(2, tail=tail)
    store = LogDirectory(log.data)
    assert [store.offset_at(AUDIT, time) for time in (5, 10, 15, 20, 21)] == [0, 0, 1, 1, None]


def test_times_are_found_behind_segments_that_are_empty_or_gone(
    log: LogFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [
        log.segment(0, (0, records([b"a"], time=10))),
        log.segment(1),
        log.segment(2, (2, records([b"a"], time=20))),
    ]
    store = LogDirectory(log.data)
    assert [store.offset_at(AUDIT, time) for time in (5, 15, 20, 25)] == [0, 2, 2, None]
    listed = store._segments(AUDIT)
    monkeypatch.setattr(store, "_segments", lambda partition: listed)
    paths[0].unlink()
    assert [store.offset_at(AUDIT, time) for time in (5, 15, 20, 25)] == [2, 2, 2, None]


@pytest.mark.parametrize("time", [5, 15, 25, 35])
def test_a_time_is_not_looked_for_behind_damage(log: LogFiles, time: int) -> None:
    first = log.segment(0, (0, records([b"a"], time=10)), (1, records([b"b"], time=20)))
    log.segment(2, (2, records([b"c"], time=30)))
    log.segment(3, (3, records([b"d"], time=40)))
    content = bytearray(first.read_bytes())
    content[0 if time < 20 else len(content) // 2] ^= 0xFF
    first.write_bytes(content)
    store = LogDirectory(log.data)
    if time > 30:
        assert store.offset_at(AUDIT, time) == 3
        return
    with pytest.raises(DamagedSegment):
        store.offset_at(AUDIT, time)


def test_damage_is_in_nobody_s_way_to_a_time_elsewhere(log: LogFiles) -> None:
    for base in range(0, 6, 2):
        times = (10 * base, 10 * base + 10)
        log.segment(base, *((base + n, records([b"a"], time=time)) for n, time in enumerate(times)))
    segment_path(log.directory, 2).write_bytes(b"damaged from the beginning on")
    store = LogDirectory(log.data)
    assert [store.offset_at(AUDIT, time) for time in (0, 10, 50, 51)] == [0, 1, 5, None]
    for time in (15, 30, 40):  # between what is whole on either side
        with pytest.raises(DamagedSegment):
            store.offset_at(AUDIT, time)


def test_ranges_are_cut_by_the_bytes_of_their_bodies(log: LogFiles) -> None:
    log.segment(0, (0, records([b"x" * 10] * 5)))
    log.segment(5, (5, records([b"x" * 10] * 5)))
    store = LogDirectory(log.data)
    sealed, newest = store.extents(AUDIT)
    assert store.cut(sealed, 35) == Cut(3, 30)
    assert store.cut(newest, 50) == Cut(10, 50)
    assert store.cut(OffsetRange(AUDIT, 7, 10, 0), 15) == Cut(8, 10)


def test_what_was_removed_is_left_to_the_reader_to_complain_of(log: LogFiles) -> None:
    path = log.numbered_segment(0, 3)
    store = LogDirectory(log.data)
    (extent,) = store.extents(AUDIT)
    path.unlink()
    assert store.cut(extent, 0) == Cut(3, 0)


def test_a_newest_segment_that_goes_after_it_was_listed_is_not_missed(
    log: LogFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.numbered_segment(0, 3)
    look = NewestSegment.look

    def removed_first(newest: NewestSegment) -> None:
        monkeypatch.setattr(NewestSegment, "look", look)
        segment_path(log.directory, 0).unlink()
        look(newest)

    monkeypatch.setattr(NewestSegment, "look", removed_first)
    assert spans(log) == [(0, 0)]
