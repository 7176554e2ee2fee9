"""What is left of a transaction that was appended: who is told, what is settled, and when it is over."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from amqp_front.commit import TURN_SECONDS, Commit
from amqp_front.confirm_board import ConfirmBoard
from amqp_front.errors import INTERNAL_ERROR, HardError
from amqp_front.unacked import Taken
from log_backend import Reason, SystemClock
from vhosts import Comeback


class HastyClock(SystemClock):
    """Every look at it takes longer than a turn."""

    looks = 0

    def monotonic(self) -> float:
        """See `Clock`."""
        self.looks += 1
        return super().monotonic() + self.looks * 2 * TURN_SECONDS


class Consumption:
    """Writes down what is finished."""

    def __init__(self) -> None:
        self.finished: list[Taken] = []

    def finish(self, taken: Taken) -> None:
        """See `Consumption`."""
        self.finished.append(taken)


class Ending:
    """A commit on a loop, and what it does."""

    def __init__(self, clock: SystemClock | None = None) -> None:
        loop = asyncio.get_running_loop()
        self.board = ConfirmBoard(loop.call_soon)
        self.services: Any = SimpleNamespace(
            loop=loop, confirms=self.board, clock=clock or SystemClock()
        )
        self.consumption = Consumption()
        self.taken = Taken([], Reason.ACKED)
        self.told: list[int] = []

    def begin(self, needed: int, told: int = 0) -> Commit:
        tells = [lambda at=at: self.told.append(at) for at in range(told)]  # type: ignore[misc]
        return Commit(self.services, needed, cast(Any, self.consumption), [self.taken], tells)


async def test_what_is_not_for_the_journal_is_over_at_once() -> None:
    ending = Ending()
    assert ending.begin(0, told=3).reached.done()
    assert ending.told == [0, 1, 2]
    assert ending.consumption.finished == [ending.taken]


async def test_it_is_settled_and_over_when_it_is_durable() -> None:
    ending = Ending()
    commit = ending.begin(4, told=1)
    assert ending.told == [0]
    ending.board.written(4)
    ending.board.durable(3)
    assert not commit.reached.done()
    assert ending.consumption.finished == []
    ending.board.durable(4)
    assert commit.reached.done()
    assert ending.consumption.finished == [ending.taken]


async def test_many_are_told_in_turns_and_it_is_not_over_before() -> None:
    ending = Ending(HastyClock())
    commit = ending.begin(4, told=5)
    assert ending.told == [0]
    ending.board.durable(4)
    assert ending.consumption.finished == [
        ending.taken
    ]  # no snapshot may know less than the journal
    assert not commit.reached.done()
    async with asyncio.timeout(10):
        await commit.reached
    assert ending.told == [0, 1, 2, 3, 4]


async def test_a_failure_of_the_journal_returns_what_was_taken() -> None:
    ending = Ending(HastyClock())
    commit = ending.begin(4, told=3)
    ending.board.failed()
    with pytest.raises(HardError) as caught:
        await commit.reached
    assert caught.value.code == INTERNAL_ERROR
    assert ending.consumption.finished == [Taken([], Comeback.FAILED)]
    for _ in range(2):
        await asyncio.sleep(0)
    assert ending.told == [0, 1, 2]


async def test_an_error_while_somebody_is_told_ends_it_and_settles_all_the_same() -> None:
    ending = Ending()

    def fail() -> None:
        raise RuntimeError("a fault of ours")

    taken = [ending.taken]
    commit = Commit(ending.services, 4, cast(Any, ending.consumption), taken, [fail])
    with pytest.raises(RuntimeError):
        await commit.reached
    ending.board.durable(4)
    assert ending.consumption.finished == taken
