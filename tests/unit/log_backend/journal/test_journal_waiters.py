"""Calls that wait for the journal."""

from functools import partial

from routelog.log_backend.journal.journal_waiters import JournalWaiters


def test_a_call_comes_once_the_journal_is_there_and_not_before() -> None:
    waiters, called = JournalWaiters(), list[str]()
    waiters.wait(3, lambda: called.append("written 3"), committed=False)
    waiters.wait(3, lambda: called.append("durable 3"), committed=True)
    waiters.wait(5, lambda: called.append("durable 5"), committed=True)
    waiters.reached(2, 2)
    assert called == []
    waiters.reached(3, 2)
    assert called == ["written 3"]
    waiters.reached(4, 4)
    assert called == ["written 3", "durable 3"]
    waiters.reached(9, 9)
    waiters.reached(9, 9)
    assert called == ["written 3", "durable 3", "durable 5"]


def test_a_call_may_wait_for_more() -> None:
    waiters, called = JournalWaiters(), list[int]()
    waiters.wait(
        1, lambda: waiters.wait(2, lambda: called.append(2), committed=True), committed=True
    )
    waiters.reached(1, 1)
    assert called == []
    waiters.reached(2, 2)
    assert called == [2]


def test_calls_come_in_the_order_of_their_positions_whoever_asked_first() -> None:
    waiters, called = JournalWaiters(), list[int]()
    for position in (5, 3, 4, 3):
        waiters.wait(position, partial(called.append, position), committed=False)
    waiters.reached(4, 0)
    assert called == [3, 3, 4]
    waiters.reached(5, 0)
    assert called == [3, 3, 4, 5]
