"""What a consumer may say of its group."""

import pytest

from routelog.vhosts.arguments.group_options import EXPIRES_DEFAULT, GroupOptions, wanted_group
from routelog.vhosts.errors import InvalidConsumerArgument

DAY = 86_400_000_000


def test_without_a_group_there_are_no_options() -> None:
    assert wanted_group({}) is None
    assert wanted_group({"x-stream-offset": "first"}) is None


def test_a_group_stays_a_week_without_consumers_unless_told_otherwise() -> None:
    assert wanted_group({"x-group": "g"}) == GroupOptions("g", EXPIRES_DEFAULT)
    assert EXPIRES_DEFAULT == 7 * DAY
    for text, expires in (
        ("1s", 1_000_000),
        ("2D", 2 * DAY),
        ("2d", 2 * DAY),
        ("100Y", 36_500 * DAY),
        ("never", None),
    ):
        arguments = {"x-group": "g", "x-group-expires": text}
        assert wanted_group(arguments) == GroupOptions("g", expires)


@pytest.mark.parametrize("name", ["g" * 255, "é" * 127, "a b/c~%", "日本"])
def test_names_of_up_to_255_bytes_are_names(name: str) -> None:
    assert wanted_group({"x-group": name}) == GroupOptions(name)


@pytest.mark.parametrize(
    "name", ["", "g" * 256, "é" * 128, b"\xff", None, 5, 1.5, True, [], {}, "a\0b", "a\nb", "\x7f"]
)
def test_anything_else_is_no_name(name: object) -> None:
    with pytest.raises(InvalidConsumerArgument, match="x-group"):
        wanted_group({"x-group": name})


@pytest.mark.parametrize(
    "expires", ["", "0s", "0D", "5", "-1s", "Never", 5, None, True, "7w", "101Y", "999999999Y"]
)
def test_an_expiry_is_an_age_or_never(expires: object) -> None:
    with pytest.raises(InvalidConsumerArgument, match="x-group-expires"):
        wanted_group({"x-group": "g", "x-group-expires": expires})


def test_an_expiry_is_of_a_group() -> None:
    with pytest.raises(InvalidConsumerArgument, match="there is no 'x-group'"):
        wanted_group({"x-group-expires": "1h"})
