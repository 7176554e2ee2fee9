"""How much of what a connection has received is carried out in one turn of the event loop."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from loop_services import rota_of
from queue_samples import SetClock
from unit.amqp_front.test_long_write import Loop

from amqp_front.command_turn import MUCH_BYTES, TURN_COMMANDS_MAX, TURN_SECONDS, CommandTurn
from amqp_front.connection import Connection
from amqp_front.connection_state import State
from amqp_front.cork import Cork
from amqp_front.frame_cutter import FrameCutter
from amqp_front.rota import HEARD_SECONDS, Rota

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
        cork=(cork := Cork(cast(Any, loop))),
        rota=Rota(cast(Any, loop), clock, cork),
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
        loop.turn()
        if len(services.cutter.unread()) == left[-1] * len(HEARTBEAT):
            loop.turn()  # that was the rest of the one that it was read in
    raise AssertionError(left)


def test_quick_commands_are_carried_out_until_there_are_many() -> None:
    assert left_after_turns(SetClock()) == [FRAMES - TURN_COMMANDS_MAX, 0]


@pytest.mark.parametrize(("turns", "each"), [(1.5, 1), (0.26, 4)])
def test_slow_commands_are_carried_out_until_they_have_taken_a_turn(
    turns: float, each: int
) -> None:
    left = left_after_turns(SlowClock(turns))
    assert left == [max(0, FRAMES - each * turn) for turn in range(1, -(-FRAMES // each) + 1)]


ROOM = memoryview(bytearray(1 << 20))


def test_what_is_read_counts_as_commands() -> None:
    turn = CommandTurn(rota_of(Loop()), SetClock())
    turn.received(4095)
    assert turn.commands_left == TURN_COMMANDS_MAX
    turn.received(1 << 19)
    assert turn.commands_left == TURN_COMMANDS_MAX // 2


def late_rota(loop: Loop) -> Rota:
    """A rota in a turn of the loop that a client has made long."""
    clock = SetClock()
    rota = Rota(cast(Any, loop), clock, Cork(cast(Any, loop)))
    rota.heard_much()
    clock.microseconds += round(HEARD_SECONDS * 1e6)
    return rota


def test_who_has_much_to_say_in_a_long_turn_of_the_loop_says_it_in_another() -> None:
    loop = Loop()
    turn = CommandTurn(late_rota(loop), SetClock())
    assert len(turn.room(ROOM)) == MUCH_BYTES
    turn.received(MUCH_BYTES)
    assert turn.commands_left <= 0
    loop.turn()
    assert len(turn.room(ROOM)) == len(ROOM)


def test_who_has_little_to_say_is_heard_in_a_long_turn_too() -> None:
    turn = CommandTurn(late_rota(Loop()), SetClock())
    turn.room(ROOM)
    turn.received(MUCH_BYTES - 1)
    assert turn.commands_left > 0


def test_a_read_that_is_full_by_chance_is_no_end() -> None:
    turn = CommandTurn(rota_of(Loop()), SetClock())
    assert len(turn.room(ROOM)) == len(ROOM)
    turn.received(MUCH_BYTES)
    assert turn.commands_left > 0


def read(turn: CommandTurn, nbytes: int) -> None:
    turn.room(ROOM)
    turn.received(nbytes)


def test_what_was_used_up_does_not_count_when_others_had_their_turns() -> None:
    loop = Loop()
    rota = rota_of(loop)
    turn = CommandTurn(rota, SetClock())
    turn.commands_left = 1
    read(turn, 1)
    assert turn.commands_left == 1  # nobody waits
    rota.wait(lambda: None)
    loop.turn()
    read(turn, 1)
    assert turn.commands_left == TURN_COMMANDS_MAX


def test_who_has_waited_has_one_turn() -> None:
    loop = Loop()
    rota = rota_of(loop)
    turn = CommandTurn(rota, SetClock())
    turn.end()
    rota.wait(turn.begin)
    loop.turn()
    loop.turn()
    assert turn.commands_left == TURN_COMMANDS_MAX
    turn.commands_left = 1
    read(turn, 1)
    assert turn.commands_left == 1


def test_who_has_waited_has_the_whole_of_it_however_long_others_have_made_the_loops() -> None:
    loop = Loop()
    rota = late_rota(loop)
    waited, other = CommandTurn(rota, SetClock()), CommandTurn(rota, SetClock())
    waited.begin()
    assert len(waited.room(ROOM)) == len(ROOM)
    waited.received(MUCH_BYTES)
    assert waited.commands_left > 0
    assert len(other.room(ROOM)) == MUCH_BYTES


class ToldRota(Rota):
    """What it was told of others."""

    told: float = 0.0

    def others_took(self, seconds: float) -> None:
        """See `Rota`."""
        self.told += seconds


@pytest.mark.parametrize(
    ("waits", "nbytes", "others"),
    [(False, MUCH_BYTES - 1, 0.5), (False, MUCH_BYTES, 0.0), (True, MUCH_BYTES - 1, 0.0)],
)
def test_the_rota_knows_what_those_took_that_have_little_to_say_and_have_not_waited(
    waits: bool, nbytes: int, others: float
) -> None:
    loop, clock = Loop(), SetClock()
    cork = Cork(cast(Any, loop))
    rota = ToldRota(cast(Any, loop), clock, cork)
    turn = CommandTurn(rota, clock)
    rota.wait(turn.begin if waits else lambda: None)
    loop.turn()
    loop.turn()
    read(turn, nbytes)

    def commands() -> None:
        assert cork.is_in
        assert turn.until == clock.monotonic() + TURN_SECONDS
        clock.microseconds += 500_000

    turn.carry_out(cork, commands)
    assert rota.told == pytest.approx(others)
