"""Who is told that a journal has advanced, and when."""

from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.sampling import examples

from routelog.log_backend.journal.receipt import NOTHING, Progress, Receipt


class Turn:
    """The event loop's next turn, run by hand."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], None]] = []
        self.time = 0.0

    def call_soon(self, call: Callable[[], None]) -> None:
        self.calls.append(call)

    def run(self) -> None:
        calls, self.calls = self.calls, []
        for call in calls:
            call()


class Waiter:
    """Waits for one receipt after the other."""

    def __init__(self, progress: Progress, *receipts: Receipt) -> None:
        self.progress = progress
        self.receipts = list(receipts)
        self.told: list[str] = []
        self.wait()

    def wait(self) -> None:
        if self.receipts:
            self.progress.wait(self, self.receipts[0])

    def journal_reached(self) -> None:
        self.told.append(f"{self.progress.written}, {self.progress.durable}")
        while self.receipts and self.receipts[0].is_covered():
            del self.receipts[0]
        self.wait()

    def journal_late(self) -> None:
        self.told.append("late")
        while self.receipts and self.receipts[0].is_late():
            del self.receipts[0]
        self.wait()

    def journal_failed(self) -> None:
        self.told.append("failed")


@pytest.fixture
def turn() -> Turn:
    return Turn()


@pytest.fixture
def progress(turn: Turn) -> Progress:
    return Progress(turn.call_soon, lambda: turn.time)


def test_a_waiter_is_told_when_its_receipt_is_covered_and_not_before(progress: Progress) -> None:
    waiter = Waiter(progress, progress.receipt(0, 20), progress.receipt(0, 30))
    for position in (10, 20, 25, 30, 40):
        progress.advance(position, position)
    assert waiter.told == ["20, 20", "30, 30"]


def test_what_is_covered_already_is_told_after_this_turn(progress: Progress, turn: Turn) -> None:
    progress.advance(60, 50)
    waiters = [Waiter(progress, each) for each in (NOTHING, progress.receipt(60, 50))]
    assert len(turn.calls) == 1
    assert not any(each.told for each in waiters)
    turn.run()
    assert [each.told for each in waiters] == [["60, 50"], ["60, 50"]]
    progress.advance(61, 61)
    assert turn.calls == []
    waiters.append(Waiter(progress, NOTHING))
    turn.run()
    assert [each.told for each in waiters] == [["60, 50"], ["60, 50"], ["61, 61"]]


def test_what_is_written_is_told_apart_from_what_is_durable(progress: Progress) -> None:
    synced, written = (
        Waiter(progress, progress.receipt(0, 7)),
        Waiter(progress, progress.receipt(7, 0)),
    )
    both = Waiter(progress, progress.receipt(0, 5).joined(progress.receipt(8, 0)))
    progress.advance(7, 5)
    assert (synced.told, written.told, both.told) == ([], ["7, 5"], ["7, 5"])
    assert both.receipts
    progress.advance(8, 8)
    assert (synced.told, both.told) == (["8, 8"], ["7, 5", "8, 8"])
    assert not both.receipts


def test_all_who_wait_are_told_within_one_call(progress: Progress, turn: Turn) -> None:
    calls: list[Callable[[], None]] = []
    progress.around = calls.append
    first = Waiter(progress, progress.receipt(0, 1))
    second = Waiter(progress, progress.receipt(2, 0))
    soon = Waiter(progress, NOTHING)
    progress.advance(2, 2)
    turn.run()
    assert first.told == second.told == soon.told == []
    for call in calls:
        call()
    assert first.told == second.told == soon.told == ["2, 2"]
    progress.advance(3, 3)  # nobody is there
    assert len(calls) == 2


def test_an_error_of_one_waiter_keeps_nothing_from_the_others_and_those_who_come_later(
    progress: Progress, turn: Turn
) -> None:
    def fail() -> None:
        raise ValueError("a fault of ours")

    progress.receipt(0, 1).when_covered(fail)
    first = Waiter(progress, progress.receipt(0, 1))
    with pytest.raises(ValueError, match="a fault of ours"):
        progress.advance(1, 1)
    assert first.told == []
    turn.run()
    assert first.told == ["1, 1"]
    second = Waiter(progress, NOTHING)
    turn.run()
    assert second.told == ["1, 1"]


def test_all_waiters_hear_of_a_failure_once_and_those_who_come_later_as_well(
    progress: Progress, turn: Turn
) -> None:
    waiters = [Waiter(progress, progress.receipt(0, 9)), Waiter(progress, progress.receipt(9, 0))]
    called: list[int] = []
    progress.receipt(0, 9).when_covered(lambda: called.append(9))
    progress.fail()
    progress.fail()
    progress.advance(9, 9)
    waiters.append(Waiter(progress, progress.receipt(0, 10)))
    turn.run()
    assert [waiter.told for waiter in waiters] == [["failed"]] * 3
    assert called == []


def test_what_is_late_is_told_and_what_is_not_waits_on(progress: Progress) -> None:
    receipts = [progress.receipt(*each) for each in ((5, 5), (0, 6), (9, 6), (0, 10))]
    waiters = [Waiter(progress, each) for each in receipts]
    called: list[int] = []
    receipts[0].when_covered(lambda: called.append(5))
    progress.advance(5, 4)
    progress.refuse(6)
    assert [each.is_late() for each in receipts] == [True, True, False, False]
    assert [each.told for each in waiters] == [["late"], ["late"], ["late"], []]
    assert [len(each.receipts) for each in waiters] == [0, 0, 1, 1]
    progress.advance(10, 10)
    assert [each.told[-1] for each in waiters] == ["late", "late", "10, 10", "10, 10"]
    assert called == [5]
    assert not any(each.is_late() for each in receipts)


def test_the_time_of_one_run_at_a_time_is_measured_up_to_its_confirm(
    turn: Turn, progress: Progress
) -> None:
    latencies = progress.latencies
    progress.measure(progress.receipt(0, 10))
    turn.time = 1.0
    progress.measure(progress.receipt(0, 20))  # while another one is measured
    progress.advance(9, 9)
    assert sum(latencies.counts) == 0
    turn.time = 3.0
    progress.advance(20, 20)
    assert (sum(latencies.counts), latencies.sum) == (1, 3.0)
    progress.advance(21, 21)
    assert sum(latencies.counts) == 1
    progress.measure(progress.receipt(0, 21))  # durable already: confirmed in the next turn
    Waiter(progress, progress.receipt(0, 21))
    turn.time = 3.5
    turn.run()
    assert (sum(latencies.counts), latencies.sum) == (2, 3.5)


def test_what_is_refused_has_no_time(turn: Turn, progress: Progress) -> None:
    progress.measure(progress.receipt(0, 10))
    progress.fail()
    turn.time = 5.0
    progress.measure(progress.receipt(0, 20))
    turn.time = 6.0
    progress.advance(20, 20)
    assert progress.latencies.sum == 1.0


# -- calls


def test_a_call_comes_at_once_or_when_the_receipt_is_covered(progress: Progress) -> None:
    called: list[str] = []
    for written, durable in ((3, 0), (0, 3), (0, 5), (0, 0), (4, 3)):
        name = f"{written}, {durable}"
        progress.receipt(written, durable).when_covered(partial(called.append, name))
    assert called == ["0, 0"]
    progress.advance(3, 2)
    assert called[1:] == ["3, 0"]
    progress.advance(4, 4)
    assert called[2:] == ["0, 3", "4, 3"]
    progress.advance(9, 9)
    assert called[4:] == ["0, 5"]
    progress.receipt(9, 9).when_covered(partial(called.append, "9, 9"))
    assert called[5:] == ["9, 9"]


def test_calls_come_in_the_order_of_their_positions_whoever_asked_first(
    progress: Progress,
) -> None:
    called: list[int] = []
    for position in (5, 3, 4, 3):
        progress.receipt(position, 0).when_covered(partial(called.append, position))
    progress.advance(4, 0)
    assert called == [3, 3, 4]
    progress.advance(5, 0)
    assert called == [3, 3, 4, 5]


def test_a_call_may_wait_for_more(progress: Progress) -> None:
    called: list[int] = []
    again = progress.receipt(0, 2)
    progress.receipt(0, 1).when_covered(
        lambda: again.when_covered(partial(called.append, progress.durable))
    )
    progress.advance(1, 1)
    assert called == []
    progress.advance(2, 2)
    assert called == [1]


# -- several journals


def test_a_receipt_of_several_journals_is_covered_when_each_is_there(turn: Turn) -> None:
    home, other = (Progress(turn.call_soon, lambda: turn.time) for _ in range(2))
    receipt = home.receipt(2, 1).joined(other.receipt(0, 7)).joined(home.receipt(0, 3))
    waiter = Waiter(home, receipt)
    called: list[str] = []
    receipt.when_covered(lambda: called.append("all"))
    other.advance(6, 6)
    home.advance(3, 3)
    assert (waiter.receipts, called, receipt.is_covered()) == ([receipt], [], False)
    other.refuse(7)
    assert receipt.is_late()
    assert (waiter.receipts, waiter.told[-1]) == ([], "late")
    other.advance(7, 7)
    assert (called, receipt.is_covered(), receipt.is_late()) == (["all"], True, False)


def test_publishes_of_one_block_share_a_receipt(progress: Progress) -> None:
    receipt = progress.receipt(0, 4)
    assert progress.receipt(0, 4) is receipt
    assert receipt.joined(NOTHING) is receipt
    assert NOTHING.joined(receipt) is receipt
    assert progress.receipt(0, 0) is NOTHING


places = st.tuples(st.integers(0, 1), st.integers(0, 9), st.integers(0, 9))


@settings(max_examples=examples(200), deadline=None, derandomize=True)
@given(pairs=st.lists(places, max_size=6), advances=st.lists(places, max_size=12))
def test_a_receipt_is_covered_exactly_when_all_that_joined_it_are(
    pairs: list[tuple[int, int, int]], advances: list[tuple[int, int, int]]
) -> None:
    turn = Turn()
    journals = [Progress(turn.call_soon, lambda: 0.0) for _ in range(2)]
    parts = [journals[at].receipt(written, durable) for at, written, durable in pairs]
    receipt: Receipt = NOTHING
    for part in parts:
        receipt = receipt.joined(part)
    called: list[int] = []
    waiter = Waiter(journals[0], receipt)
    receipt.when_covered(lambda: called.append(1))
    for at, written, durable in advances:
        journal = journals[at]
        written = max(journal.written, written)
        journal.advance(written, max(journal.durable, min(written, durable)))
        turn.run()
        expected = all(
            each.written <= journals[place].written and each.durable <= journals[place].durable
            for each, (place, _, _) in zip(parts, pairs, strict=True)
        )
        assert receipt.is_covered() is expected
        assert bool(called) is expected
        assert bool(waiter.receipts) is not expected
    assert len(called) <= 1
