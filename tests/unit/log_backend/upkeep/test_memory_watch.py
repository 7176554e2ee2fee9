"""When memory is short, of all that holds messages."""

from types import SimpleNamespace
from typing import Any, cast

from routelog.log_backend.upkeep.memory_watch import MemoryWatch


def test_what_others_hold_counts_beside_tails() -> None:
    intake = SimpleNamespace(tail_bytes=150)
    pressed: list[bool] = []
    memory = MemoryWatch(cast(Any, intake), 100, pressed.append)
    memory.hold(50)
    memory.hold(1)
    memory.hold(-51)
    assert pressed == [False, True, False]
    intake.tail_bytes = 201
    assert memory.is_short
    assert memory.bytes == 201


def test_tails_alone_can_end_the_alarm() -> None:
    intake = SimpleNamespace(tail_bytes=101)
    memory = MemoryWatch(cast(Any, intake), 100, lambda is_short: None)
    memory.hold(10_000)
    assert memory.is_short
    intake.tail_bytes = 100
    assert not memory.is_short


def test_while_memory_is_short_every_change_of_tails_is_watched() -> None:
    intake = SimpleNamespace(tail_bytes=201, tail_bytes_watched=100)
    memory = MemoryWatch(cast(Any, intake), 100, lambda is_short: None)
    memory.look()
    assert (memory.excess, intake.tail_bytes_watched) == (101, -1)
    intake.tail_bytes = 200
    memory.look()
    assert intake.tail_bytes_watched == 100
