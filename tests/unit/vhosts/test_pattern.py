"""Patterns of administrators. What they match is in test_permission.py."""

import pytest

from vhosts.pattern import CHARACTERS_MAX, BadPattern, Pattern


def test_a_pattern_matches_anywhere_and_the_empty_one_everywhere() -> None:
    assert Pattern("b").matches("abc")
    assert not Pattern("^b").matches("abc")
    assert Pattern("").matches("abc")


@pytest.mark.parametrize("text", ["(", "x" * (CHARACTERS_MAX + 1)])
def test_what_is_no_pattern_is_refused(text: str) -> None:
    with pytest.raises(BadPattern):
        Pattern(text)


def test_a_pattern_that_takes_years_does_not_match() -> None:
    assert not Pattern("(a|aa)+$").matches("a" * 250 + "!")
