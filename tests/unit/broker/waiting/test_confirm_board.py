"""Who is told that the journal has advanced, and when."""

from collections.abc import Callable

import pytest

from routelog.broker.waiting.confirm_board import ConfirmBoard
from routelog.log_backend import JournalPositions


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
    def __init__(self, until: int) -> None:
        self.until = until
        self.heard: list[int] = []
        self.heard_written: list[int] = []
        self.failures = 0

    def journal_reached(self, reached: JournalPositions) -> bool:
        self.heard.append(reached.durable)
        self.heard_written.append(reached.written)
        return reached.durable < self.until

    def journal_failed(self) -> None:
        self.failures += 1


def synced(position: int) -> JournalPositions:
    return JournalPositions(0, position)


@pytest.fixture
def turn() -> Turn:
    return Turn()


@pytest.fixture
def board(turn: Turn) -> ConfirmBoard:
    return ConfirmBoard(turn.call_soon, lambda: turn.time)


def test_a_waiter_is_told_until_it_waits_no_more(board: ConfirmBoard) -> None:
    waiter = Waiter(until=20)
    board.wait(waiter, synced(20))
    for position in (10, 20, 30):
        board.durable(position)
    assert waiter.heard == [10, 20]


def test_what_is_durable_already_is_confirmed_after_this_turn(
    board: ConfirmBoard, turn: Turn
) -> None:
    board.durable(50)
    first, second = Waiter(until=0), Waiter(until=50)
    board.wait(first, synced(0))
    board.wait(second, synced(50))
    board.wait(first, synced(0))
    assert len(turn.calls) == 1
    assert first.heard == []
    turn.run()
    assert (first.heard, second.heard) == ([50], [50])
    board.wait(first, synced(0))
    turn.run()
    assert first.heard == [50, 50]


def test_what_is_written_is_told_apart_from_what_is_durable(board: ConfirmBoard) -> None:
    waiter = Waiter(until=9)
    board.wait(waiter, synced(9))
    board.durable(5)
    board.written(7)
    board.durable(8)
    assert (waiter.heard_written, waiter.heard) == ([5, 7, 8], [5, 5, 8])


def test_what_is_written_already_is_confirmed_after_this_turn(
    board: ConfirmBoard, turn: Turn
) -> None:
    board.written(50)
    board.wait(Waiter(until=0), synced(1))
    assert turn.calls == []
    board.wait(Waiter(until=0), JournalPositions(50, 0))
    assert len(turn.calls) == 1


def test_what_is_not_durable_schedules_nothing(board: ConfirmBoard, turn: Turn) -> None:
    board.wait(Waiter(until=1), synced(1))
    assert turn.calls == []


def test_a_forgotten_waiter_hears_nothing(board: ConfirmBoard, turn: Turn) -> None:
    waiter = Waiter(until=9)
    board.wait(waiter, synced(0))
    board.forget(waiter)
    board.forget(waiter)
    turn.run()
    board.durable(5)
    board.failed()
    assert (waiter.heard, waiter.failures) == ([], 0)


def test_all_waiters_hear_of_a_failure_once(board: ConfirmBoard) -> None:
    waiters = [Waiter(until=9), Waiter(until=9)]
    for waiter in waiters:
        board.wait(waiter, synced(9))
    board.failed()
    board.failed()
    board.durable(9)
    assert [(waiter.failures, waiter.heard) for waiter in waiters] == [(1, []), (1, [])]


def test_the_time_of_one_run_at_a_time_is_measured_up_to_its_confirm(
    turn: Turn, board: ConfirmBoard
) -> None:
    waiter = Waiter(until=20)
    board.wait(waiter, synced(10))
    turn.time = 1.0
    board.wait(waiter, synced(20))  # while another one is measured
    board.durable(9)
    assert sum(board.latencies.counts) == 0
    turn.time = 3.0
    board.durable(20)
    assert (sum(board.latencies.counts), board.latencies.sum) == (1, 3.0)
    board.durable(21)
    assert sum(board.latencies.counts) == 1
    board.wait(waiter, synced(21))  # durable already: confirmed in the next turn
    turn.time = 3.5
    turn.run()
    assert (sum(board.latencies.counts), board.latencies.sum) == (2, 3.5)


def test_what_is_refused_has_no_time(turn: Turn, board: ConfirmBoard) -> None:
    board.wait(Waiter(until=20), synced(10))
    board.failed()
    turn.time = 5.0
    board.wait(Waiter(until=20), synced(20))
    turn.time = 6.0
    board.durable(20)
    assert board.latencies.sum == 1.0
