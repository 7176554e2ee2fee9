"""Patterns of administrators. What they match is in test_permission.py."""

from typing import Any

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from routelog.vhosts.arguments.pattern import (
    CHARACTERS_MAX,
    LEAST_SECONDS,
    OVERDRAFT_SECONDS_MAX,
    TURN_SECONDS_MAX,
    BadPattern,
    MatchBudget,
    OutOfTime,
    Pattern,
)


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


class Thread:
    """Its processor time, and a pattern that takes some."""

    def __init__(self, takes: float) -> None:
        self.time = 0.0
        self.takes = takes
        self.tries = 0
        self.others = 0.0  # what other threads take meanwhile

    def seconds(self) -> float:
        return self.time

    def search(self, name: str, timeout: float) -> Any:
        self.tries += 1
        others, self.others = self.others, 0.0
        if self.takes + others > timeout:
            self.time += max(0.0, timeout - others)
            raise TimeoutError
        self.time += self.takes
        return name if name == "yes" else None


def ask(budget: MatchBudget, thread: Thread, name: str = "yes", has_run_out: bool = False) -> bool:
    matcher: Any = thread
    return budget.search(matcher, name, has_run_out=has_run_out)


def test_all_matches_share_the_time() -> None:
    thread = Thread(takes=0.002)
    budget = MatchBudget(thread_seconds=thread.seconds)
    assert ask(budget, thread)
    assert not ask(budget, thread, "no")
    assert budget.left == pytest.approx(TURN_SECONDS_MAX - 0.004)
    with pytest.raises(OutOfTime):
        ask(budget, thread)
    assert thread.time == pytest.approx(TURN_SECONDS_MAX)


@pytest.mark.parametrize("have_run_out", [False, True])
def test_however_many_patterns_take_years_they_take_two_budgets_at_most(have_run_out: bool) -> None:
    thread = Thread(takes=1e9)
    budget = MatchBudget(thread_seconds=thread.seconds)
    for _ in range(1_000):
        with pytest.raises(OutOfTime):
            ask(budget, thread, has_run_out=have_run_out)
    most = TURN_SECONDS_MAX + OVERDRAFT_SECONDS_MAX + LEAST_SECONDS
    assert TURN_SECONDS_MAX < thread.time < most + 1e-9


def test_a_quick_pattern_has_its_answer_behind_one_that_took_all() -> None:
    thread = Thread(takes=1e9)
    budget = MatchBudget(thread_seconds=thread.seconds)
    with pytest.raises(OutOfTime):
        ask(budget, thread)
    thread.takes = 0.00002
    assert ask(budget, thread)


def test_a_pattern_that_ran_out_once_has_little_time() -> None:
    thread = Thread(takes=1e9)
    budget = MatchBudget(thread_seconds=thread.seconds)
    with pytest.raises(OutOfTime):
        ask(budget, thread, has_run_out=True)
    assert thread.time == pytest.approx(LEAST_SECONDS)


def test_what_other_threads_take_meanwhile_does_not_count() -> None:
    thread = Thread(takes=0.00002)
    thread.others = 1.0
    budget = MatchBudget(thread_seconds=thread.seconds)
    assert ask(budget, thread)
    assert thread.tries == 2


def test_one_name_never_has_more_than_a_turn_of_a_request() -> None:
    thread = Thread(takes=1e9)
    budget = MatchBudget(1.0, thread_seconds=thread.seconds)
    with pytest.raises(OutOfTime):
        ask(budget, thread)
    assert thread.time == pytest.approx(TURN_SECONDS_MAX)
