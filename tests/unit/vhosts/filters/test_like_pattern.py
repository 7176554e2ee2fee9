"""LIKE, compared with a regular expression."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routelog.vhosts.filters.like_pattern import LikePattern


def as_expression(pattern: str) -> str:
    """The pattern as a regular expression, without an escape character."""
    forms = {"%": ".*", "_": "."}
    return "".join(forms.get(each, re.escape(each)) for each in pattern)


@given(st.text("ab%_.", max_size=8), st.text("ab.\n", max_size=8))
def test_a_text_matches_as_it_does_a_regular_expression(pattern: str, text: str) -> None:
    try:
        found = LikePattern(pattern, None).matches(text)
    except ValueError:
        assert re.search("%[^%]*_[^%]*%", pattern)
    else:
        assert found == (re.fullmatch(as_expression(pattern), text, re.DOTALL) is not None)


@given(st.text("ab%_", max_size=8), st.text("ab", max_size=8))
def test_what_matches_contains_the_literal(pattern: str, text: str) -> None:
    try:
        found = LikePattern(pattern, None)
    except ValueError:
        return
    assert found.literal in text or not found.matches(text)


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("!%", "%", True),
        ("!%", "x", False),
        ("!_%", "_x", True),
        ("!_%", "xx", False),
        ("!!", "!", True),
        ("a!b", "ab", True),
        ("%!_%", "a_b", True),
        ("%!_%", "ab", False),
    ],
)
def test_an_escaped_character_is_plain(pattern: str, text: str, matches: bool) -> None:
    assert LikePattern(pattern, "!").matches(text) is matches


def test_an_escape_character_needs_another_one() -> None:
    with pytest.raises(ValueError, match="nothing follows"):
        LikePattern("a!", "!")


def test_a_text_is_looked_through_once_whatever_the_pattern() -> None:
    text = "a" * 100_000
    began = time.process_time()
    assert not LikePattern("%a" * 1_000 + "b", None).matches(text)
    assert not LikePattern("%" + "a" * 1_000 + "b%", None).matches(text)
    assert time.process_time() - began < 5  # a regular expression takes years
