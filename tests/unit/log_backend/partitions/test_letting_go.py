"""What is let go of in turns."""

from typing import Any

from queue_samples import Turns

from routelog.log_backend.doors.clock import SystemClock
from routelog.log_backend.partitions.letting_go import FREED_AT_ONCE, TURN_SECONDS, LettingGo


class HastyClock(SystemClock):
    """Every look at it takes longer than a turn."""

    looks = 0

    def monotonic(self) -> float:
        self.looks += 1
        return super().monotonic() + self.looks * 2 * TURN_SECONDS


def test_each_turn_frees_some_until_all_are_freed() -> None:
    turns = Turns()
    letting_go = LettingGo(turns.call_soon, HastyClock())
    some = FREED_AT_ONCE
    gone: list[list[Any]] = [[None] * some, [None] * (some + 1), [None] * 5, []]
    for each in gone:
        letting_go.add(each)
    left = [sum(map(len, gone))]
    while turns.one():
        left.append(sum(map(len, gone)))
    assert left == [2 * some + 6, some + 6, 6, 0]
    letting_go.add([None])
    assert (turns.one(), turns.one()) == (1, 0)


def test_a_turn_that_has_time_frees_all() -> None:
    turns = Turns()
    letting_go = LettingGo(turns.call_soon, SystemClock())
    gone: list[Any] = [None] * (3 * FREED_AT_ONCE)
    letting_go.add(gone)
    turns.one()
    assert not gone
