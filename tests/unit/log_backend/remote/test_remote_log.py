"""Which copies the retention of a log ends."""

import pytest

from routelog.log_backend.remote.remote_log import RemoteLog
from routelog.log_backend.remote.remote_segment import RemoteSegment, counting
from routelog.log_backend.segments.retention import Retention

HOUR = 3_600_000_000
NOW = 100 * HOUR


def segment(first: int, end: int, time: int = NOW, size: int = 1_000) -> RemoteSegment:
    return RemoteSegment(first, end, time, 1, 1, size, False, first)


def remote(*ages: int) -> RemoteLog:
    """Ten records and 1,000 bytes each, so many hours old."""
    return RemoteLog(
        "folder",
        [
            segment(10 * number, 10 * number + 10, NOW - age * HOUR)
            for number, age in enumerate(ages)
        ],
    )


@pytest.mark.parametrize(
    ("rule", "local_bytes", "low_water", "ended"),
    [
        (Retention(is_stream=True), 10**9, 30, 0),
        (Retention(is_stream=True, age_max=4 * HOUR), 0, 0, 2),
        (Retention(is_stream=True, bytes_max=3_000), 0, 0, 0),
        (Retention(is_stream=True, bytes_max=3_000), 1_500, 0, 2),  # the disk's part counts
        (Retention(6 * HOUR, is_stream=True, age_max=0), 0, 0, 1),  # x-retention is the least
        (Retention(4 * HOUR), 0, 30, 2),
        (Retention(4 * HOUR), 0, 15, 1),  # what is not settled stays
        (Retention(4 * HOUR), 0, 0, 0),
    ],
)
def test_the_oldest_copies_end_first(
    rule: Retention, local_bytes: int, low_water: int, ended: int
) -> None:
    assert remote(9, 5, 1).ended(rule, local_bytes, low_water, NOW) == ended


def test_what_retention_has_removed_counts_as_copied() -> None:
    log = remote(9, 5)
    log.drop(20)
    assert (log.segments, log.bytes, log.end, log.end_from(3)) == ([], 0, 20, 20)
    log.listed([segment(20, 25, size=7)])
    assert (log.end, log.bytes, log.end_from(3)) == (25, 7, 25)


def test_what_lies_behind_a_gap_does_not_count_as_copied() -> None:
    log = RemoteLog("folder", [segment(0, 10), segment(10, 20), segment(30, 40)])
    assert [log.end_from(offset) for offset in (0, 9, 10, 19)] == [20] * 4
    assert [log.end_from(offset) for offset in (20, 29)] == [20, 29]
    assert [log.end_from(offset) for offset in (30, 39, 40, 50)] == [40, 40, 40, 50]


def test_an_offset_is_looked_for_in_its_segment_then_in_others_that_overlap_it() -> None:
    whole = [segment(0, 10), segment(5, 20), segment(8, 30), segment(40, 50)]
    log = RemoteLog("folder", counting(whole))
    assert [each.first_offset for each in log.segments] == [0, 10, 20, 40]
    for offset, bases in {
        3: [0],
        7: [0, 5],
        9: [0, 5, 8],
        15: [5, 8],
        25: [8],
        35: [],
        50: [],
    }.items():
        assert [each.base_offset for each in log.copies_of(offset)] == bases
    found = [log.segment_of(offset) for offset in (9, 10, 35, 50)]
    assert [each and each.base_offset for each in found] == [0, 5, 40, None]


def test_a_lost_segment_leaves_what_others_have_of_it() -> None:
    log = RemoteLog("folder", counting([segment(0, 10), segment(5, 20), segment(30, 40)]))
    log.lost(log.segments[0])
    assert [(each.first_offset, each.next_base) for each in log.segments] == [(5, 20), (30, 40)]
    assert log.bytes == 2_000


@pytest.mark.parametrize(
    ("first", "end", "size"), [(0, 30, 3_000), (5, 11, 2_000), (10, 20, 1_000), (30, 40, 0)]
)
def test_bytes_are_those_of_the_segments_in_a_range(first: int, end: int, size: int) -> None:
    assert remote(9, 5, 1).bytes_between(first, end) == size


def test_the_first_segment_of_a_time_or_later() -> None:
    log = remote(9, 5, 1)
    times = (0, NOW - 9 * HOUR, NOW - 8 * HOUR, NOW - HOUR, NOW)
    found = [log.since(each) for each in times]
    assert [each and each.base_offset for each in found] == [0, 0, 10, 20, None]


def test_nothing_is_copied_of_an_empty_folder() -> None:
    assert (RemoteLog("folder").end, RemoteLog("folder").end_from(7)) == (0, 7)
