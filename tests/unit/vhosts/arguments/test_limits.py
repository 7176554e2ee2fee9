"""Limits: which there are, and when one is reached."""

import pytest

from routelog.vhosts.arguments.limits import (
    MAX_CONNECTIONS,
    MAX_QUEUES,
    USER_LIMITS,
    VHOST_LIMITS,
    checked_limits,
    reached,
)
from routelog.vhosts.errors import InvalidLimit


def test_limits_that_are_known_are_taken() -> None:
    values = {MAX_CONNECTIONS: 10, MAX_QUEUES: -1}
    assert checked_limits(VHOST_LIMITS, values) == values


@pytest.mark.parametrize(
    "values", [{"max-channels": 1}, {"max-queues": "1"}, {"max-queues": True}, {"max-queues": None}]
)
def test_what_is_no_limit_is_refused_by_name(values: dict[str, object]) -> None:
    with pytest.raises(InvalidLimit, match=f"limit '{next(iter(values))}'"):
        checked_limits(VHOST_LIMITS, values)


@pytest.mark.parametrize("name", ["max-publish-rate", "max-publish-bytes-rate"])
def test_a_rate_is_at_least_one_or_none(name: str) -> None:
    for known in (USER_LIMITS, VHOST_LIMITS):
        assert checked_limits(known, {name: 1}) == {name: 1}
        assert checked_limits(known, {name: -1}) == {name: -1}
        with pytest.raises(InvalidLimit, match="expected 1 or more"):
            checked_limits(known, {name: 0})


@pytest.mark.parametrize(
    ("limits", "count", "limit"),
    [
        ({}, 10**9, None),
        ({MAX_QUEUES: -1}, 10**9, None),
        ({MAX_QUEUES: 2}, 1, None),
        ({MAX_QUEUES: 2}, 2, 2),
        ({MAX_QUEUES: 2}, 3, 2),
        ({MAX_QUEUES: 0}, 0, 0),
        ({MAX_CONNECTIONS: 0}, 0, None),
    ],
)
def test_a_limit_is_reached_when_none_more_fits(
    limits: dict[str, int], count: int, limit: int | None
) -> None:
    assert reached(limits, MAX_QUEUES, count) == limit
