"""What is let go of in turns."""

from typing import Any

import pytest
from support.queue_samples import Turns

from routelog.log_backend.loop import scheduler
from routelog.log_backend.loop.scheduler import Lane
from routelog.log_backend.partitions.gradual_free import FREED_AT_ONCE, GradualFree


def test_each_turn_frees_some_until_all_are_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(scheduler.SHARE_SECONDS, Lane.UPKEEP, 0.000001)  # for one step
    turns = Turns()
    turns.clock.look_microseconds = 10
    gradual = GradualFree(turns.scheduler)
    some = FREED_AT_ONCE
    gone: list[list[Any]] = [[None] * some, [None] * (some + 1), [None] * 5, []]
    for each in gone:
        gradual.add(each)
    left = [sum(map(len, gone))]
    while turns.one():
        left.append(sum(map(len, gone)))
    assert sorted(set(left), reverse=True) == [2 * some + 6, some + 6, 6, 0]
    gradual.add(last := [None])
    turns.run()
    assert not last


def test_a_pass_that_has_time_frees_all() -> None:
    turns = Turns()
    gradual = GradualFree(turns.scheduler)
    gone: list[Any] = [None] * (3 * FREED_AT_ONCE)
    gradual.add(gone)
    turns.one()
    assert not gone
