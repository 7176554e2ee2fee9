"""Which copies the retention of a log ends."""

import pytest

from routelog.log_backend.remote.remote_log import RemoteLog
from routelog.log_backend.remote.remote_segment import RemoteSegment
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
    log.drop(2)
    assert (log.segments, log.bytes, log.end, log.end_from(3)) == ([], 0, 20, 20)
    log.listed([segment(20, 25, size=7)])
    assert (log.end, log.bytes, log.end_from(3)) == (25, 7, 25)


def test_what_lies_behind_a_gap_does_not_count_as_copied() -> None:
    log = RemoteLog("folder", [segment(0, 10), segment(10, 20), segment(30, 40)])
    assert [log.end_from(offset) for offset in (0, 9, 10, 19)] == [20] * 4
    assert [log.end_from(offset) for offset in (20, 29)] == [20, 29]
    assert [log.end_from(offset) for offset in (30, 39, 40, 50)] == [40, 40, 40, 50]


def test_nothing_is_copied_of_an_empty_folder() -> None:
    assert (RemoteLog("folder").end, RemoteLog("folder").end_from(7)) == (0, 7)
