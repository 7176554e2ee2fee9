"""Which segments a rule of retention keeps no longer."""

from pathlib import Path

import pytest

from routelog.log_backend.doors.clock import Moment
from routelog.log_backend.segments.retention import Hold, Retention
from routelog.log_backend.segments.segment import Segment

HOUR = 3_600_000_000
NOW = 100 * HOUR
MOMENT = Moment(NOW, 1_000.0)


def segments(*ages: int, size: int = 1_000) -> list[Segment]:
    """Ten records each, whose last one is so many hours old."""
    made = []
    for number, age in enumerate(ages):
        segment = Segment(Path(f"{number * 10:020d}.log"), number * 10)
        segment.end_offset = number * 10 + 10
        segment.last_time = NOW - age * HOUR
        segment.size = size
        made.append(segment)
    return made


@pytest.mark.parametrize(
    ("age_max", "bytes_max", "settled_age", "ended"),
    [
        (None, None, 0, 0),
        (4 * HOUR, None, 0, 2),
        (5 * HOUR, None, 0, 1),  # not older yet
        (0, None, 0, 4),  # never the newest
        (None, 5_000, 0, 0),
        (None, 4_999, 0, 1),
        (None, 2_500, 0, 3),
        (None, 0, 0, 4),
        (4 * HOUR, 2_500, 0, 3),
        (0, None, 4 * HOUR, 3),  # x-retention keeps at least so long
    ],
)
def test_limits_of_a_stream_take_the_oldest_first(
    age_max: int | None, bytes_max: int | None, settled_age: int, ended: int
) -> None:
    rule = Retention(settled_age, True, age_max, bytes_max)
    assert rule.ended(segments(9, 5, 4, 1, 0), 0, MOMENT) == ended


def test_a_younger_segment_keeps_those_behind_it() -> None:
    rule = Retention(is_stream=True, age_max=4 * HOUR)
    assert rule.ended(segments(9, 1, 9, 0), 0, MOMENT) == 1


@pytest.mark.parametrize(("low_water", "ended"), [(0, 0), (9, 0), (10, 1), (25, 2), (50, 3)])
def test_a_queues_own_messages_are_never_ended_by_age(low_water: int, ended: int) -> None:
    assert Retention(4 * HOUR).ended(segments(9, 5, 4, 1, 0), low_water, MOMENT) == ended


def test_nothing_stored_is_nothing_ended() -> None:
    for rule in (Retention(0), Retention(0, True, 0, 0)):
        assert rule.ended([], 0, MOMENT) == 0


def sealed(*ages: int) -> list[Segment]:
    """Segments that each name the one behind them; the newest is still written."""
    made = segments(*ages)
    for segment in made[:-1]:
        segment.next_base = segment.end_offset
    return made


@pytest.mark.parametrize(
    ("age_max", "bytes_max", "copied_end", "count"),
    [
        (None, None, 50, 0),  # copies are kept beside
        (4 * HOUR, None, 50, 2),
        (4 * HOUR, None, 19, 1),  # what is not copied stays
        (0, 0, 0, 0),
        (0, 0, 50, 4),  # the newest is not sealed
        (None, 3_000, 50, 2),
    ],
)
def test_only_what_was_copied_leaves_the_disk_early(
    age_max: int | None, bytes_max: int | None, copied_end: int, count: int
) -> None:
    rule = Retention(1_000 * HOUR, is_remote=True, local_age_max=age_max, local_bytes_max=bytes_max)
    found = sealed(9, 5, 4, 1, 0)
    assert rule.copied(found, copied_end, MOMENT) == count
    assert rule.removable(found, 50, copied_end, MOMENT) == count
    assert rule.removable(found, 9, copied_end, MOMENT) == 0, "somebody needs it"


def test_nothing_goes_before_it_is_copied_whatever_the_limits_in_all_say() -> None:
    found = sealed(9, 5, 4, 1, 0)
    assert Retention(4 * HOUR).removable(found, 50, 0, MOMENT) == 3
    assert Retention(4 * HOUR, is_remote=True).removable(found, 50, 0, MOMENT) == 0
    assert Retention(4 * HOUR, is_remote=True).removable(found, 50, 20, MOMENT) == 2


@pytest.mark.parametrize(("bytes_max", "lapsed"), [(0, [30]), (1_500, [20]), (3_000, [])])
def test_a_hold_lapses_for_the_oldest_of_what_retention_would_let_go(
    bytes_max: int, lapsed: list[int]
) -> None:
    told: list[int] = []
    Hold(bytes_max, told.append).check(segments(9, 5, 4))
    assert told == lapsed
