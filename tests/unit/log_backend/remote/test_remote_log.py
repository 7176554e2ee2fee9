"""Which copies the retention of a log ends."""

import pytest

from routelog.log_backend.remote.remote_log import RemoteLog
from routelog.log_backend.remote.remote_segment import RemoteSegment
from routelog.log_backend.segments.retention import Retention

HOUR = 3_600_000_000
NOW = 100 * HOUR


def remote(*ages: int) -> RemoteLog:
    """Ten records and 1,000 bytes each, so many hours old."""
    return RemoteLog(
        "folder",
        [
            RemoteSegment(10 * number, 10 * number + 10, NOW - age * HOUR, 1_000, False)
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


def test_the_end_stays_when_all_copies_have_gone() -> None:
    log = remote(9, 5)
    log.drop(2)
    assert (log.segments, log.bytes, log.end) == ([], 0, 20)
    log.add(RemoteSegment(20, 25, NOW, 7, True))
    log.add(
        RemoteSegment(20, 31, NOW, 9, True)
    )  # a crash took its successor, and it was written on
    assert (log.end, log.bytes, len(log.segments)) == (31, 9, 1)


def test_nothing_is_copied_of_an_empty_folder() -> None:
    assert RemoteLog("folder", []).end == 0
