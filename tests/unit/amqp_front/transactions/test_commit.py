"""What is left of a transaction that was appended: who is told, what is settled, and when it is over."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from support.loop_services import scheduler_on
from support.waiting import until
from unit.amqp_front.publishing_channel import HastyClock

from routelog.amqp_front.transactions.commit import Commit
from routelog.amqp_front.wire.errors import INTERNAL_ERROR, HardError
from routelog.log_backend import NOTHING, JournalFailed, Progress, Receipt, SystemClock


class Settling:
    """Writes down what becomes of deliveries; very many of them take three turns."""

    def __init__(self, services: Any, *, are_few: bool) -> None:
        self.services = services
        self.are_few = are_few
        self.entries = object()
        self.told: list[str] = []

    def leaving(self) -> Sequence[object]:
        """See `Settling`."""
        return ()

    def committed(self) -> None:
        """See `Settling`."""
        self.told.append("committed")

    def failed(self) -> None:
        """See `Settling`."""
        self.told.append("failed")

    def at_once(self) -> None:
        """See `Settling`."""
        self.told.append("settled")

    def steps(self) -> Iterator[None]:
        """See `Settling`."""
        yield from [None] * 2
        self.at_once()


class Transaction:
    """A transaction of the log; writes down what becomes of it.

    Args:
        needed: covered when what is appended is durable.
    """

    def __init__(self, needed: Receipt) -> None:
        self.needed = needed
        self.steps: list[object] = []

    def append(self, append: Callable[[], object], settled: Sequence[object] = ()) -> None:
        """See `LogTransaction`."""
        append()
        self.steps.append(list(settled))

    def pause(self) -> None:
        """See `LogTransaction`."""
        self.steps.append("paused")

    def end(self) -> None:
        """See `LogTransaction`."""
        self.steps.append("ended")

    def take_back(self) -> None:
        """See `LogTransaction`."""
        self.steps.append("taken back")

    def show_some(self) -> bool:
        """See `LogTransaction`."""
        self.steps.append("shown")
        return False


class Plan:
    """A plan that is appended in some turns.

    Args:
        error: of the last of them.
    """

    needed: Receipt = NOTHING
    remembered: Sequence[Callable[[], object]] = ()

    def __init__(
        self,
        told: Sequence[Callable[[], object]],
        turns: int = 1,
        error: BaseException | None = None,
    ) -> None:
        self.told = told
        self.takes_turns = turns > 1
        self.queues_told: list[bool] = []  # whether it has failed
        self._turns = turns
        self._error = error

    def carry_out(self, clock: object, *, whole: bool) -> bool:
        """See `CommitPlan`."""
        self._turns = 0 if whole else self._turns - 1
        if not self._turns and self._error is not None:
            raise self._error
        return not self._turns

    def tell_some(self, *, failed: bool = False) -> bool:
        """See `CommitPlan`."""
        self.queues_told.append(failed)
        return False


class Ending:
    """A commit on a loop, and what it does."""

    def __init__(self, clock: SystemClock | None = None, *, settles_few: bool = True) -> None:
        loop = asyncio.get_running_loop()
        scheduler = scheduler_on(loop, clock)
        if clock is None:
            scheduler.deadline = float("inf")  # the turn of a client that does not end
        self.progress = Progress(loop.call_soon, float)
        self.services: Any = SimpleNamespace(
            loop=loop,
            scheduler=scheduler,
            progress=self.progress,
            settlings=deque(),
        )
        self.settling: Any = Settling(self.services, are_few=settles_few)
        self.told: list[int] = []

    def begin(
        self, needed: int, told: int = 0, turns: int = 1, error: BaseException | None = None
    ) -> Commit:
        tells = [lambda at=at: self.told.append(at) for at in range(told)]
        return self.carry_out(needed, Plan(tells, turns, error))

    def carry_out(self, needed: int, plan: Any) -> Commit:
        self.transaction: Any = Transaction(self.progress.receipt(needed, needed))
        return Commit(self.services, self.transaction, plan, [self.settling])


async def test_what_is_not_for_the_journal_is_over_at_once() -> None:
    ending = Ending()
    assert ending.begin(0, told=3).reached.done()
    assert ending.told == [0, 1, 2]
    assert ending.settling.told == ["settled"]


async def test_it_is_settled_and_over_when_it_is_durable() -> None:
    ending = Ending()
    commit = ending.begin(4, told=1)
    assert ending.told == [0]
    ending.progress.advance(4, 3)
    assert not commit.reached.done()
    assert ending.settling.told == []
    ending.progress.advance(4, 4)
    assert commit.reached.done()
    assert ending.settling.told == ["settled"]


async def test_many_are_told_in_turns_and_it_is_not_over_before() -> None:
    ending = Ending(HastyClock())
    commit = ending.begin(4, told=5)
    assert ending.told == [0]
    ending.progress.advance(4, 4)
    assert ending.settling.told == ["settled"]  # no snapshot may know less than the journal
    assert not commit.reached.done()
    async with asyncio.timeout(60):
        await commit.reached
    assert ending.told == [0, 1, 2, 3, 4]


async def test_very_many_are_known_as_settled_at_once_and_settled_in_turns() -> None:
    ending = Ending(settles_few=False)
    commit = ending.begin(4)
    ending.progress.advance(4, 4)
    assert ending.settling.told == ["committed"]  # no snapshot may know less than the journal
    assert not commit.reached.done()
    async with asyncio.timeout(60):
        await commit.reached
    assert ending.settling.told == ["committed", "settled"]


async def test_a_failure_of_the_journal_returns_what_was_taken() -> None:
    ending = Ending(HastyClock())
    commit = ending.begin(4, told=3)
    ending.progress.fail()
    with pytest.raises(HardError) as caught:
        await commit.reached
    assert caught.value.code == INTERNAL_ERROR
    assert ending.settling.told == ["failed", "settled"]
    await until(lambda: ending.told == [0, 1, 2])


async def test_an_error_while_somebody_is_told_is_logged_as_it_will_be_durable(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ending = Ending()

    def fail() -> None:
        raise RuntimeError("a fault of ours")

    commit = ending.carry_out(4, Plan([fail, partial(ending.told.append, 1)]))
    ending.progress.advance(4, 4)
    await commit.reached
    assert ending.settling.told == ["settled"]
    assert ending.told == [1]
    assert "a fault of ours" in caplog.text


async def test_what_is_appended_in_turns_is_told_and_waited_for_behind_the_last() -> None:
    ending = Ending()
    commit = ending.begin(4, told=1, turns=3)
    assert ending.transaction.steps == [[ending.settling.entries], "paused"]
    for _ in range(10):
        await asyncio.sleep(0)
    assert ending.transaction.steps[2:] == [[], [], "ended", "shown"]
    assert ending.told == [0]
    assert not commit.reached.done()
    ending.progress.advance(4, 4)
    assert commit.reached.done()
    assert ending.settling.told == ["settled"]


async def test_it_is_appended_to_its_end_when_the_broker_stops() -> None:
    ending = Ending()
    ending.begin(4, told=1, turns=1_000)
    ending.services.scheduler.finish()
    assert ending.transaction.steps[-2:] == ["ended", "shown"]
    assert ending.told == [0]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (JournalFailed(OSError()), HardError),
        (RuntimeError("a fault of ours"), RuntimeError),
        (asyncio.CancelledError(), HardError),
    ],
)
async def test_an_error_in_a_later_turn_returns_what_was_taken(
    error: BaseException, expected: type[Exception]
) -> None:
    ending = Ending()
    plan = Plan([partial(ending.told.append, 1)], 2, error)
    commit = ending.carry_out(4, plan)
    with pytest.raises(expected):
        await commit.reached
    assert plan.queues_told == [True]
    assert ending.settling.told == ["failed", "settled"]
    assert ending.told == []
    assert not ending.services.scheduler._jobs
