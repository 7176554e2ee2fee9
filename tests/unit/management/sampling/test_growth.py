"""What grows, and since when."""

from collections.abc import Callable

import pytest

from routelog.management.sampling.growth import growing_since, grown, unchanged_since
from routelog.management.sampling.history import History


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
