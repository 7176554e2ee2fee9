"""Arguments on their way from JSON and to it."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from routelog.vhosts.arguments.json_arguments import DEPTH_MAX, checked_arguments, plain_arguments
from routelog.vhosts.errors import InvalidArguments


def nested(depth: int) -> Any:
    value: Any = {}
    for _ in range(depth - 1):
        value = {"x": value}
    return value


def test_what_amqp_can_say_is_taken() -> None:
    arguments = {"a": 1, "b": "é", "c": [True, None, {"d": 1.5}], "e": nested(DEPTH_MAX - 1)}
    assert checked_arguments(arguments) is arguments


@pytest.mark.parametrize(
    "arguments",
    [
        nested(DEPTH_MAX + 1),
        nested(50_000),
        {"x": 2**64},
        {"x": -(2**63) - 1},
        {"x" * 256: 1},
        {"é" * 128: 1},
        {"x": "y" * 65_536},
        {"\ud800": 1},
    ],
)
def test_what_amqp_cannot_say_is_refused(arguments: Any) -> None:
    with pytest.raises(InvalidArguments):
        checked_arguments(arguments)


def test_every_value_of_amqp_can_be_said_in_json() -> None:
    arguments = {
        "text": b"abc",
        "bytes": b"\xff\x00",
        "time": datetime(1970, 1, 2, tzinfo=UTC),
        "decimal": Decimal("1.5"),
        "inner": {"list": [b"x", 1, None]},
    }
    assert plain_arguments(arguments) == {
        "text": "abc",
        "bytes": "/wA=",
        "time": 86_400,
        "decimal": 1.5,
        "inner": {"list": ["x", 1, None]},
    }
