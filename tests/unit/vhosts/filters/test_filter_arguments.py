"""What a consumer may ask for."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from routelog.vhosts.errors import InvalidConsumerArgument
from routelog.vhosts.filters.filter_arguments import TERMS_MAX, filter_arguments


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"x-stream-offset": "first", "x-group": "g"},
        {"x-stream-match-unfiltered": True},  # of nothing
        {"x-filter-match-type": "any"},
    ],
)
def test_without_a_condition_there_is_no_filter(arguments: dict[str, object]) -> None:
    assert filter_arguments(arguments) is None


def test_a_filter_is_what_was_asked_for_as_json() -> None:
    headers = {"n": 1, "d": Decimal("1.5"), "t": datetime(1970, 1, 2, tzinfo=UTC), "b": True}
    asked = {
        "x-filter": "a = 1",
        "x-stream-filter": ["red", headers],
        "x-filter-match-type": "any",
        "x-stream-match-unfiltered": False,
    }
    terms = ["red", {"n": 1, "d": 1.5, "t": 86_400, "b": True}]
    assert filter_arguments(asked | {"x-priority": 1}) == asked | {"x-stream-filter": terms}


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("x-stream-filter", 1, "unacceptable type 'signedint', expected texts or tables"),
        ("x-stream-filter", None, "unacceptable type 'void'"),
        ("x-stream-filter", b"\xff", "unacceptable type 'binary'"),
        ("x-stream-filter", ["a", 1], "unacceptable type 'signedint'"),
        ("x-stream-filter", [["a"]], "unacceptable type 'array'"),
        ("x-stream-filter", "", "a text has 1 to 255 bytes"),
        ("x-stream-filter", "ä" * 128, "a text has 1 to 255 bytes"),
        ("x-stream-filter", {"a": "b" * 256}, "a text has 1 to 255 bytes"),
        ("x-stream-filter", [], "it has 0 texts and headers, expected 1 to 64"),
        ("x-stream-filter", {}, "it has 0 texts and headers"),
        ("x-stream-filter", ["a"] * (TERMS_MAX + 1), "it has 65 texts and headers"),
        ("x-stream-filter", ["a"] * TERMS_MAX + [{"a": 1}], "it has 65 texts and headers"),
        ("x-stream-filter", {"a": None}, "header 'a' has to be a text, a number or a boolean"),
        ("x-stream-filter", {"geo": {"lat": 1}}, "header 'geo' has to be a text"),
        ("x-stream-filter", {"a": float("nan")}, "header 'a' has to be"),
        ("x-filter-match-type", "ANY", "invalid value 'ANY', expected one of all, any"),
        ("x-stream-match-unfiltered", "true", "unacceptable type 'longstr'"),
        ("x-filter", b"\xff", "unacceptable type 'binary'"),
    ],
)
def test_what_is_none_is_refused(name: str, value: object, reason: str) -> None:
    with pytest.raises(InvalidConsumerArgument) as refused:
        filter_arguments({"x-stream-filter": "a", name: value})
    assert str(refused.value).startswith(f"invalid arg '{name}' of a consumer: {reason}")
