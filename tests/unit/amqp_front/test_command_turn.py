"""How much of what a connection has received is carried out in one turn of the event loop."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from queue_samples import SetClock
from unit.amqp_front.test_long_write import Loop

from amqp_front.command_turn import TURN_COMMANDS_MAX, TURN_SECONDS
from amqp_front.connection import Connection
from amqp_front.connection_state import State
from amqp_front.cork import Cork
from amqp_front.frame_cutter import FrameCutter

HEARTBEAT = b"\x08\x00\x00\x00\x00\x00\x00\xce"
FRAME_MAX = 131_072
FRAMES = 2 * TURN_COMMANDS_MAX - 1  # less than 4 KiB, which would count, too


class SlowClock(SetClock):
    """Each look at it takes so much of a turn, as each command behind it would."""

    def __init__(self, turns: float) -> None:
        super().__init__()
        self._step = round(turns * TURN_SECONDS * 1e6)

    def monotonic(self) -> float:
        """See `Clock`."""
        self.microseconds += self._step
        return super().monotonic()


def left_after_turns(clock: SetClock) -> list[int]:
    """Frames that are left unread after each turn, of so many that came with one read."""
    loop = Loop()
    services: Any = SimpleNamespace(
        cutter=FrameCutter(FRAME_MAX),
        loop=loop,
        clock=clock,
        cork=Cork(cast(Any, loop)),
        gate=SimpleNamespace(closed=False),
    )
    connection = Connection(services, SimpleNamespace(opened=None, closed=None))
    connection.state = State.OPEN
    sent = HEARTBEAT * FRAMES
    connection.get_buffer(-1)[: len(sent)] = sent
    connection.buffer_updated(len(sent))
    left = [FRAMES]
    for _ in range(FRAMES):
        left.append(len(services.cutter.unread()) // len(HEARTBEAT))
        if not left[-1]:
            return left[1:]
        loop.turn()  # it may be the one that was read in
        loop.turn()
    raise AssertionError(left)


def test_quick_commands_are_carried_out_until_there_are_many() -> None:
    assert left_after_turns(SetClock()) == [FRAMES - TURN_COMMANDS_MAX, 0]


@pytest.mark.parametrize(("turns", "each"), [(1.5, 1), (0.26, 4)])
def test_slow_commands_are_carried_out_until_they_have_taken_a_turn(
    turns: float, each: int
) -> None:
    left = left_after_turns(SlowClock(turns))
    assert left == [max(0, FRAMES - each * turn) for turn in range(1, -(-FRAMES // each) + 1)]
