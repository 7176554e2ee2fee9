"""Patterns of administrators. What they match is in test_permission.py."""

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from routelog.vhosts.arguments.match_budget import OutOfTime
from routelog.vhosts.arguments.pattern import CHARACTERS_MAX, BadPattern, Pattern


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


def test_a_pattern_that_ran_out_says_so_once_and_still_matches_other_names(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pattern = Pattern("^(a|aa)+$")
    slow = "a" * 250 + "!"
    assert not pattern.matches(slow)
    assert not pattern.matches(slow)
    assert pattern.ran_out_for == slow
    assert pattern.matches("aaa")
    assert len(caplog.records) == 1
    with pytest.raises(OutOfTime):
        pattern.matches_in_time(slow)


@pytest.mark.parametrize(
    ("text", "name", "matches"),
    [
        ("^a$", "a", True),
        ("^a$", "a\n", False),
        ("^(a|b$)", "b\n", False),
        ("(?m)^a$", "a\nb", False),
        (r"a\$", "a$\n", True),
        (r"a\\$", "a\\\n", False),
        ("a[$]", "a$b", True),
        ("a[^]$]", "a$", False),
        ("[]$]", "$", True),
        (r"[\]$]", "$", True),
        ("[[:alpha:]$]", "$", True),
        ("[[:alpha:]$]$", "$\n", False),
        ("[a-z]$[0]?", "a", True),
    ],
)
def test_a_dollar_is_the_very_end_of_a_name(text: str, name: str, matches: bool) -> None:
    assert Pattern(text).matches(name) is matches


PIECES = ("a", "b", "$", "^", "[", "]", "[^", "\\", "(", ")", "|", "*", "[:alpha:]", "-", ".")


@given(st.lists(st.sampled_from(PIECES), max_size=8), st.text("ab$[]^", max_size=4))
def test_only_names_with_a_line_feed_at_the_end_match_otherwise_than_in_rabbitmq(
    pieces: list[str], name: str
) -> None:
    text = "".join(pieces)
    try:
        usual = regex.compile(text)
    except regex.error:
        with pytest.raises(BadPattern):
            Pattern(text)
    else:
        assert Pattern(text).matches(name) is (usual.search(name) is not None)
