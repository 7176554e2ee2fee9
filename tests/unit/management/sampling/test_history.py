"""Rows over time, and what lies between them."""

from collections.abc import Callable

import pytest

from routelog.management.sampling.history import (
    DAY,
    TEN_MINUTES,
    History,
    Stretch,
    growing_since,
    grown,
    unchanged_since,
)


@pytest.fixture
def history() -> History:
    filled = History(2)
    for time, row in ((10.0, (0, 5)), (15.0, (50, 5)), (30.0, (60, 7))):
        filled.add(time, row, 100)
    return filled


@pytest.mark.parametrize(
    ("time", "values"),
    [
        (0.0, (0, 5)),
        (10.0, (0, 5)),
        (12.0, (20, 5)),
        (15.0, (50, 5)),
        (21.0, (54, 6)),
        (99.0, (60, 7)),
    ],
)
def test_a_value_lies_on_the_line_between_two_rows(
    history: History, time: float, values: tuple[int, int]
) -> None:
    assert (history.at(time, [0]), history.at(time, [1])) == values
    assert history.at(time, [0, 1]) == sum(values)


def test_a_rate_is_that_between_the_newest_two_rows(history: History) -> None:
    assert history.rate([0]) == pytest.approx(10 / 15)
    assert history.rate([0, 1]) == pytest.approx(12 / 15)


def test_one_row_has_no_rate() -> None:
    history = History(1)
    assert history.rate([0]) == 0.0
    history.add(1.0, (7,), 100)
    assert history.rate([0]) == 0.0


def test_the_oldest_rows_go_when_there_are_too_many(history: History) -> None:
    history.add(40.0, (61, 8), 2)
    assert len(history) == 2
    assert (history.at(0.0, [0]), history.last, history.last_time) == (60, (61, 8), 40.0)


def test_a_day_of_samples_is_thinned_to_some_400_rows_and_keeps_its_line() -> None:
    history = History(1)
    for at in range(20_000):  # 28 hours
        history.add(at * 5.0, (at * 7,), 1_000)
    now = 19_999 * 5.0
    assert len(history) < 410
    for age in (0, 599, 601, 3_000, 4_000, 20_000, 30_000, 86_000):
        assert history.at(now - age, [0]) == pytest.approx((now - age) / 5 * 7, abs=1)
    assert now - 86_400 - 2 * 720 <= history.first_time <= now - 86_400


def test_a_burst_between_long_rests_stays_where_it_was() -> None:
    history = History(1)
    for time, value in ((0.0, 0), (7_195.0, 0), (7_200.0, 900), (14_395.0, 900), (14_400.0, 901)):
        history.add(time, (value,), 1_000)
    history.add(40_000.0, (902,), 1_000)
    for time, value in ((7_000.0, 0), (7_195.0, 0), (7_200.0, 900), (14_000.0, 900)):
        assert history.at(time, [0]) == value


def test_rows_older_than_the_oldest_stretch_go() -> None:
    history = History(1, TEN_MINUTES)
    for at in range(200):
        history.add(at * 5.0, (at,), 1_000)
    assert len(history) == 121
    assert history.first_time == 199 * 5.0 - 600


def test_when_there_is_room_for_less_the_past_goes_first() -> None:
    history = History(1, [Stretch(10.0, 0.0), Stretch(100.0, 5.0)])
    for at in range(60):
        history.add(at * 1.0, (at,), 1_000)
    assert (len(history), history.first_time) == (11 + 10, 0.0)
    history.add(60.0, (60,), 12)
    assert (len(history), history.at(52.0, [0]), history.at(0.0, [0])) == (12, 52, 45)
    history.add(61.0, (61,), 2)
    assert (len(history), history.at(0.0, [0]), history.last) == (2, 60, (61,))


def test_the_stretches_are_those_that_the_charts_show() -> None:
    assert [each.age for each in DAY] == [600, 3_600, 28_800, 86_400]


def history_of(value: Callable[[int], int], seconds: int) -> tuple[History, float]:
    """A row every five seconds, and the time of the last."""
    history = History(1)
    for time in range(0, seconds + 1, 5):
        history.add(float(time), (value(time),), 1_000)
    return history, float(seconds)


def test_a_steady_growth_is_known_from_its_begin() -> None:
    history, now = history_of(lambda time: max(0, time - 1_000), 2_000)
    since = growing_since(history, [0], now, 100)
    assert since == pytest.approx(1_000, abs=60)
    assert grown(history, [0], now) == 300


def test_it_begins_where_the_samples_do() -> None:
    history, now = history_of(lambda time: time, 900)
    assert growing_since(history, [0], now, 100) == 0.0


def test_growth_over_hours_is_followed_into_the_thinned_past() -> None:
    history, now = history_of(lambda time: max(0, time - 3_600), 20_000)
    assert growing_since(history, [0], now, 100) == pytest.approx(3_600, abs=240)


@pytest.mark.parametrize(
    "value",
    [
        lambda time: 7,
        lambda time: -time,
        lambda time: 0 if time < 1_180 else 1_000,  # a burst in the last minute
        lambda time: time % 120,
    ],
)
def test_what_stays_falls_jumps_or_swings_does_not_grow(value: Callable[[int], int]) -> None:
    history, now = history_of(value, 1_200)
    assert growing_since(history, [0], now, 100) is None


def test_what_grows_by_little_does_not_grow() -> None:
    history, now = history_of(lambda time: time // 10, 1_200)
    assert growing_since(history, [0], now, 31) is None
    assert growing_since(history, [0], now, 30) is not None


def test_one_minute_in_which_it_fell_does_not_end_growth() -> None:
    history, now = history_of(lambda time: time - (100 if time > 1_050 else 0), 1_200)
    assert growing_since(history, [0], now, 100) is not None


def test_what_does_not_change_is_so_since_its_last_change() -> None:
    history, now = history_of(lambda time: min(time, 700), 1_200)
    assert unchanged_since(history, [0], now) == pytest.approx(700, abs=60)
    still, now = history_of(lambda time: 3, 600)
    assert unchanged_since(still, [0], now) == 0.0
