"""One budget of processor time for many matches."""

from typing import Any

import pytest

from routelog.vhosts.arguments.match_budget import (
    LEAST_SECONDS,
    OVERDRAFT_SECONDS_MAX,
    TURN_SECONDS_MAX,
    MatchBudget,
    OutOfTime,
)


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
