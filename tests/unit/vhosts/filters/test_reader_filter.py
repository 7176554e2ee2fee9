"""Which records the arguments of a consumer select, and how they are found."""

from __future__ import annotations

import pytest
from support.message_samples import batch, message

from routelog.log_backend import Records
from routelog.vhosts.errors import InvalidFilter
from routelog.vhosts.filters.filter_arguments import filter_arguments
from routelog.vhosts.filters.reader_filter import ReaderFilter, reader_filter

TAGGED = batch(
    message(headers={"x-stream-filter-value": "red"}),
    message(headers={"x-stream-filter-value": "blue,red", "size": 2}),
    message(headers={"x-stream-filter-value": "blue", "size": 2.0, "place": "Gent"}),
    message(headers={"x-stream-filter-value": "redder"}),
    message(headers={"size": 2, "place": "Gent"}),
    message(headers={"x-stream-filter-value": 5}),
    message(),
)


async def made(**arguments: object) -> ReaderFilter:
    checked = filter_arguments({name.replace("_", "-"): each for name, each in arguments.items()})
    assert checked is not None
    found = reader_filter(checked)
    return found if isinstance(found, ReaderFilter) else await found


@pytest.mark.parametrize(
    ("arguments", "selected"),
    [
        ({"x_stream_filter": "red"}, {0, 1}),
        ({"x_stream_filter": ["red", "blue"]}, {0, 1, 2}),
        ({"x_stream_filter": "blue,red"}, {1}),  # one text
        ({"x_stream_filter": "re"}, set()),
        ({"x_stream_filter": "5"}, set()),  # a number is no text
        ({"x_stream_filter": "red", "x_stream_match_unfiltered": True}, {0, 1, 4, 6}),
        ({"x_stream_filter": "red", "x_stream_match_unfiltered": False}, {0, 1}),
        ({"x_stream_filter": {"size": 2}}, {1, 2, 4}),
        ({"x_stream_filter": {"size": "2"}}, set()),
        ({"x_stream_filter": {"size": 2, "place": "Gent"}}, {2, 4}),
        ({"x_stream_filter": {"size": 2, "place": "x"}, "x_filter_match_type": "any"}, {1, 2, 4}),
        ({"x_stream_filter": ["red", {"size": 2}]}, {1}),
        ({"x_stream_filter": ["red", {"size": 2}], "x_filter_match_type": "any"}, {0, 1, 2, 4}),
        ({"x_stream_filter": ["red", "blue"], "x_filter_match_type": "all"}, {0, 1, 2}),
        ({"x_stream_filter": {"place": "Gent"}, "x_stream_match_unfiltered": True}, {2, 4, 6}),
        ({"x_filter": "size > 1"}, {1, 2, 4}),
        ({"x_filter": "size > 1", "x_stream_filter": ["red", "blue"]}, {1, 2}),
        ({"x_filter": "size > 1", "x_stream_filter": "no", "x_filter_match_type": "any"}, set()),
        ({"x_filter": "size > 1", "x_stream_match_unfiltered": True}, {1, 2, 4}),
    ],
)
async def test_a_filter_selects(arguments: dict[str, object], selected: set[int]) -> None:
    wanted = await made(**arguments)
    matches = wanted.condition.matches
    assert {index for index in range(TAGGED.count) if matches(TAGGED, index)} == selected
    assert wanted.condition.may_be_in(TAGGED) or not selected


async def test_a_wrong_condition_is_told_later() -> None:
    with pytest.raises(InvalidFilter):
        await made(x_filter="a =")


SIZES = batch(*(message(headers={"n": n}) for n in (0, 1, 1, 1, 0, 0, 1)))


def found(
    wanted: ReaderFilter, index: int, end: int, count_max: int = 100, looks: int = 100
) -> tuple[int, int]:
    """`next_match`, when time is over after some looks."""
    left = iter([False] * (looks - 1) + [True] * 100)
    return wanted.next_match(SIZES, index, end, count_max, lambda: next(left))


async def test_the_next_neighbours_that_match_are_found() -> None:
    wanted = await made(x_stream_filter={"n": 1})
    assert found(wanted, 0, 7) == (1, 4)
    assert found(wanted, 2, 7) == (2, 4)
    assert found(wanted, 4, 7) == (6, 7)
    assert found(wanted, 0, 7, count_max=2) == (1, 3)
    assert found(wanted, 0, 2) == (1, 2)
    assert found(wanted, 4, 6) == (6, 6)


async def test_looking_stops_when_time_is_over_but_not_before_one_look() -> None:
    wanted = await made(x_stream_filter={"n": 1})
    assert found(wanted, 4, 7, looks=1) == (5, 5)
    assert found(wanted, 5, 7, looks=1) == (6, 6)
    assert found(wanted, 6, 7, looks=1) == (6, 7)
    assert found(wanted, 1, 7, looks=1) == (1, 2)
    assert found(wanted, 0, 7, looks=3) == (1, 3)


async def test_a_batch_is_searched_once_where_it_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = await made(x_stream_filter={"place": "Gent"})
    assert wanted.next_match(SIZES, 0, 7, 9, lambda: True) == (7, 7)  # no record was looked at
    looked: list[int] = []

    def matches(records: Records, index: int) -> bool:
        looked.append(index)
        return False

    monkeypatch.setattr(type(wanted.condition), "matches", lambda _, *place: matches(*place))
    assert wanted.next_match(SIZES, 5, 7, 9, lambda: False) == (7, 7)
    assert looked == [5, 6]
