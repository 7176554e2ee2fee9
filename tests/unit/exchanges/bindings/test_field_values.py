"""Comparable twins of field values."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from routelog.exchanges.bindings.field_values import (
    NESTING_MAX,
    Incomparable,
    comparable,
    comparable_table,
    field_type,
)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1.0),
        ("abc", b"abc"),
        ("abc", bytearray(b"abc")),
        (datetime(2026, 1, 1, tzinfo=UTC), 1_767_225_600),
        (datetime(2026, 1, 1), 1_767_225_600),  # noqa: DTZ001, clients may send naive ones
        ([1, "a"], (1.0, b"a")),
        ({"a": 1, "b": [True]}, {"b": [True], "a": 1.0}),
        (float("nan"), float("nan")),
        (None, None),
    ],
)
def test_values_that_amqp_calls_equal_have_equal_twins(one: object, other: object) -> None:
    assert comparable(one) == comparable(other)
    assert hash(comparable(one)) == hash(comparable(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (True, 1),
        (False, 0),
        ("1", 1),
        (None, ""),
        (None, False),
        (Decimal("1"), 1),
        (Decimal("1.0"), Decimal("1.00")),
        ([1, 2], [2, 1]),
        ([], {}),
        ([1], 1),
        ({"a": 1}, {"a": 1, "b": None}),
    ],
)
def test_values_that_amqp_tells_apart_have_other_twins(one: object, other: object) -> None:
    assert comparable(one) != comparable(other)


def test_the_order_of_a_table_does_not_count() -> None:
    assert comparable_table({"a": 1, "b": 2}) == comparable_table({"b": 2, "a": 1})


def nested(levels: int) -> object:
    value: object = 1
    for _ in range(levels):
        value = [value]
    return value


def test_nesting_has_a_limit_far_below_the_recursion_limit() -> None:
    comparable(nested(NESTING_MAX))
    with pytest.raises(Incomparable):
        comparable(nested(NESTING_MAX + 1))
    with pytest.raises(Incomparable):
        comparable(nested(50_000))


def test_a_value_of_no_field_type_is_incomparable() -> None:
    with pytest.raises(Incomparable):
        comparable(object())


def test_field_types_have_the_names_that_error_texts_use() -> None:
    values = [True, 1, 1.5, "a", b"a", {}, [], None, object()]
    assert [field_type(value) for value in values] == [
        "bool",
        "signedint",
        "double",
        "longstr",
        "binary",
        "table",
        "array",
        "void",
        "unknown",
    ]
