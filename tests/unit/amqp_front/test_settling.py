"""Very many deliveries are settled in several turns, in their order."""

from collections.abc import Iterable
from itertools import chain
from typing import Any, cast

from amqp_front.settling import RUNS_MAX, Settling
from amqp_front.unacked import UnackedRun

RUNS = [UnackedRun(tag, tag + 1, cast(Any, None), tag, None) for tag in range(2 * RUNS_MAX + 5)]


class Turns:
    """What was settled in each."""

    def __init__(self) -> None:
        self.tags: list[list[int]] = []

    def settle(self, runs: Iterable[UnackedRun]) -> None:
        self.tags.append([run.first_tag for run in runs])


def test_each_turn_settles_some_of_them() -> None:
    turns = Turns()
    settling = Settling(RUNS, turns.settle)
    assert [settling.go_on(False) for _ in range(3)] == [False, False, True]
    assert [len(tags) for tags in turns.tags] == [RUNS_MAX, RUNS_MAX, 5]
    assert list(chain.from_iterable(turns.tags)) == list(range(len(RUNS)))


def test_the_last_turn_may_be_a_full_one() -> None:
    turns = Turns()
    assert Settling(RUNS[:RUNS_MAX], turns.settle).go_on(False)
    assert [len(tags) for tags in turns.tags] == [RUNS_MAX]


def test_a_broker_that_stops_settles_what_is_left() -> None:
    turns = Turns()
    settling = Settling(RUNS, turns.settle)
    assert not settling.go_on(False)
    assert settling.go_on(True)
    assert list(chain.from_iterable(turns.tags)) == list(range(len(RUNS)))
