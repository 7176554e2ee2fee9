"""Columns of lists."""

from routelog.management.pages.columns import Column, value_at


def test_a_value_is_found_below_others_and_is_none_where_there_is_none() -> None:
    row = {"a": {"b-c": 1}, "d": "text"}
    assert (value_at(row, "a.b-c"), value_at(row, "d")) == (1, "text")
    assert value_at(row, "a.x") is value_at(row, "d.e") is value_at(row, "x") is None


def test_numbers_stand_on_the_right() -> None:
    assert Column("a", "A", "octets of", "b").is_number
    assert not Column("a", "A").is_number
