"""What is let go of in slices."""

from typing import Any

from queue_samples import Turns

from log_backend.letting_go import FREED_MAX, LettingGo


def test_each_turn_frees_some_until_all_are_freed() -> None:
    turns = Turns()
    letting_go = LettingGo(turns.call_soon)
    gone: list[list[Any]] = [[None] * FREED_MAX, [None] * (FREED_MAX + 1), [None] * 5, []]
    for each in gone:
        letting_go.add(each)
    left = [sum(map(len, gone))]
    while turns.one():
        left.append(sum(map(len, gone)))
    assert left == [2 * FREED_MAX + 6, FREED_MAX + 6, 6, 0]
    letting_go.add([None])
    assert (turns.one(), turns.one()) == (1, 0)
