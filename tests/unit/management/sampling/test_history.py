"""Rows over time, and what lies between them."""

import pytest

from routelog.management.sampling.history import History


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
        (14.9, (0, 5)),
        (15.0, (50, 5)),
        (29.0, (50, 5)),
        (99.0, (60, 7)),
    ],
)
def test_a_value_holds_until_the_next_row(
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
