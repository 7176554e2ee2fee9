"""The newest segment: where it ends, while a broker writes it."""

import os
from pathlib import Path

import pytest
from unit.spark_bridge.log_files import LogFiles, batch_bytes, numbered

from routelog.log_backend.records.record_batch import HEADER_BYTES
from routelog.spark_bridge.logs.errors import DamagedSegment
from routelog.spark_bridge.logs.newest_segment import MARK_BYTES, NewestSegment
from routelog.spark_bridge.logs.segment_file import SegmentFile


@pytest.fixture
def log(tmp_path: Path) -> LogFiles:
    return LogFiles(tmp_path)


def look(newest: NewestSegment) -> tuple[int, int]:
    newest.look()
    return newest.end_offset, newest.end_position


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
    assert look(NewestSegment(path)) == (5, whole)
    with SegmentFile(path) as segment, pytest.raises(DamagedSegment) as caught:
        list(segment.batches())
    assert (caught.value.path, caught.value.position) == (path, whole)


def test_an_empty_segment_ends_where_it_begins(log: LogFiles) -> None:
    assert look(NewestSegment(log.segment(7))) == (7, 0)


def test_what_was_written_since_the_last_look_is_found(log: LogFiles) -> None:
    newest = NewestSegment(log.numbered_segment(0, 2, tail=bytes(4096)))
    assert look(newest)[0] == 2
    torn = batch_bytes(numbered(2, 3), 2)[:-1]
    log.numbered_segment(0, 2, tail=torn)
    assert look(newest)[0] == 2
    path = log.numbered_segment(0, 2, 3, 4)
    assert look(newest) == (9, path.stat().st_size)
    assert look(newest) == (9, path.stat().st_size)


def test_only_what_is_new_is_read_again(log: LogFiles) -> None:
    path = log.numbered_segment(0, 2, 3)
    newest = NewestSegment(path)
    newest.look()
    path = log.numbered_segment(0, 2, 3, 4)
    data = bytearray(path.read_bytes())
    data[:64] = bytes(64)  # a look from the beginning would stop here
    path.write_bytes(data)
    assert look(newest) == (9, path.stat().st_size)


def test_a_file_that_has_not_changed_is_not_read_again(
    log: LogFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest = NewestSegment(log.numbered_segment(0, 2, 3, tail=bytes(4096)))
    newest.look()
    reads: list[tuple[int, int]] = []
    read = SegmentFile._read

    def noted(segment: SegmentFile, position: int, size: int) -> bytes | bytearray:
        reads.append((position, size))
        return read(segment, position, size)

    monkeypatch.setattr(SegmentFile, "_read", noted)
    assert look(newest)[0] == 5
    assert reads == [(newest.end_position, HEADER_BYTES)]


def test_a_batch_that_the_file_s_time_does_not_show_is_found(log: LogFiles) -> None:
    path = log.numbered_segment(0, 2, tail=bytes(4096))
    newest = NewestSegment(path)
    assert look(newest)[0] == 2
    before = path.stat()
    with path.open("r+b") as file:
        file.seek(newest.end_position)
        file.write(batch_bytes(numbered(2, 3), 2))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = path.stat()
    assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert look(newest)[0] == 5


def test_a_tail_that_a_power_cut_took_is_noticed(log: LogFiles) -> None:
    newest = NewestSegment(log.numbered_segment(0, 2, 3, 4))
    assert look(newest)[0] == 9
    path = log.numbered_segment(0, 2, 1, 5, 5)
    assert look(newest) == (13, path.stat().st_size)
    path = log.numbered_segment(0, 2)
    assert look(newest) == (2, path.stat().st_size)


def test_a_batch_of_an_earlier_life_of_the_file_is_not_taken_for_a_new_one(log: LogFiles) -> None:
    newest = NewestSegment(log.numbered_segment(0, 2, 3))
    newest.look()
    log.numbered_segment(0, 2, 3, tail=batch_bytes(numbered(2, 3), 2))
    assert look(newest)[0] == 5


def test_positions_on_the_way_are_remembered(log: LogFiles) -> None:
    path = log.numbered_segment(0, *[1_000] * 100)
    newest = NewestSegment(path)
    newest.look()
    with SegmentFile(path) as segment:
        for offset in (0, 999, 1_000, 50_500, 99_999):
            hint = newest.position_before(offset)
            exact = segment.position_of(offset)
            assert exact - 2 * MARK_BYTES < hint <= exact
            assert segment.position_of(offset, hint) == exact


def test_a_removed_segment_is_an_error(log: LogFiles) -> None:
    path = log.numbered_segment(0, 2)
    newest = NewestSegment(path)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        newest.look()
