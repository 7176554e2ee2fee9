"""What comes back to very many queues does so in several turns, what comes back to one queue in one."""

from collections import Counter, deque
from collections.abc import Iterable
from itertools import chain
from types import SimpleNamespace
from typing import Any, cast

import pytest
from queue_samples import SetClock

from amqp_front.returns import AWAITED_MAX, TURN_SECONDS, Return
from amqp_front.unacked import UnackedRun
from vhosts import Comeback

QUEUES = 200
EACH = 10  # deliveries of each queue, by turns
PARTITIONS = [object() for _ in range(QUEUES)]


def held() -> list[UnackedRun]:
    """Deliveries of all queues by turns."""
    return [
        UnackedRun(tag, tag + 1, cast(Any, PARTITIONS[tag % QUEUES]), 2 * (tag // QUEUES), None)
        for tag in range(QUEUES * EACH)
    ]


class Holdings:
    """What came back in each turn; each queue takes so many seconds of the clock."""

    vhost: Any = None

    def __init__(self, clock: SetClock, seconds: float = 0.0) -> None:
        self.turns: list[list[UnackedRun]] = []
        self.failing: object = None
        self._clock = clock
        self._seconds = seconds

    def begin_turn(self) -> None:
        """See `returns.Holdings`."""
        self.turns.append([])

    def end_runs(self, runs: Iterable[UnackedRun], outcome: Comeback) -> None:
        """See `returns.Holdings`."""
        runs = list(runs)
        assert outcome is Comeback.RETURNED
        self._clock.microseconds += round(self._seconds * 1_000_000)
        self.turns[-1] += runs
        if runs[0].partition is self.failing:
            raise OSError("no disk")

    def offsets(self, partition: object) -> list[int]:
        """What came back to a queue, in this order."""
        runs = [run for run in chain.from_iterable(self.turns) if run.partition is partition]
        return list(chain.from_iterable(range(run.offset, run.end_offset) for run in runs))


@pytest.fixture
def services() -> Any:
    return SimpleNamespace(returns=deque(), clock=SetClock())


def begun(holdings: Holdings, services: Any) -> Return:
    returning = Return(holdings, held(), Comeback.RETURNED, services)
    services.returns.append(returning)
    return returning


def all_turns(returning: Return) -> int:
    """Go on to the end; returns how many turns it was."""
    count = 1
    while not returning.go_on(False):
        count += 1
    return count


def test_a_turn_bears_few_that_somebody_waits_for_and_a_queue_gets_all_of_its_own_in_one(
    services: Any,
) -> None:
    holdings = Holdings(services.clock)
    turns = all_turns(begun(holdings, services))
    assert turns >= QUEUES * EACH // (AWAITED_MAX + EACH)
    assert max(map(len, holdings.turns)) < AWAITED_MAX + EACH
    places = chain.from_iterable({run.partition for run in turn} for turn in holdings.turns)
    assert set(Counter(places).values()) == {1}
    assert all(holdings.offsets(each) == list(range(0, 2 * EACH, 2)) for each in PARTITIONS)
    assert not services.returns


def test_a_turn_ends_when_its_time_is_over(services: Any) -> None:
    holdings = Holdings(services.clock, seconds=0.4 * TURN_SECONDS)
    all_turns(begun(holdings, services))
    assert max(map(len, holdings.turns)) == 3 * EACH


def test_one_return_begins_when_the_one_before_it_has_ended(services: Any) -> None:
    first, second = Holdings(services.clock), Holdings(services.clock)
    earlier, later = begun(first, services), begun(second, services)
    assert not later.go_on(False)
    assert second.turns == []
    all_turns(earlier)
    all_turns(later)
    assert len(second.offsets(PARTITIONS[0])) == EACH


def test_a_broker_that_stops_returns_what_is_left_in_whatever_order(services: Any) -> None:
    first, second = Holdings(services.clock, 1.0), Holdings(services.clock, 1.0)
    earlier, later = begun(first, services), begun(second, services)
    assert not earlier.go_on(False)
    assert later.go_on(True)
    assert earlier.go_on(True)
    for holdings in (first, second):
        assert sum(map(len, holdings.turns)) == QUEUES * EACH
    assert not services.returns


def test_a_queue_that_fails_keeps_nothing_from_the_others(services: Any) -> None:
    holdings = Holdings(services.clock)
    holdings.failing = PARTITIONS[QUEUES // 2]
    with pytest.raises(OSError, match="no disk"):
        all_turns(begun(holdings, services))
    assert sum(map(len, holdings.turns)) == QUEUES * EACH
    assert not services.returns


def test_neighbours_come_back_as_one_though_others_were_delivered_between_them(
    services: Any,
) -> None:
    holdings = Holdings(services.clock)
    one, other, consumer = object(), object(), SimpleNamespace()
    places = [(one, 5), (other, 7), (one, 6), (other, 8), (one, 8), (one, 9)]
    runs = [
        UnackedRun(tag, tag + 1, cast(Any, place), offset, cast(Any, consumer if tag < 5 else None))
        for tag, (place, offset) in enumerate(places)
    ]
    assert Return(holdings, runs, Comeback.RETURNED, services).go_on(True)
    ranges = [(run.partition, run.offset, run.end_offset) for run in holdings.turns[0]]
    assert sorted(ranges, key=lambda each: each[1]) == [
        (one, 5, 7),
        (other, 7, 9),
        (one, 8, 9),  # the next one was somebody else's
        (one, 9, 10),
    ]
