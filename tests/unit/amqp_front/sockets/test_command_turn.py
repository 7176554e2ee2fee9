"""How much of what a connection has received is carried out in one turn of the event loop."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from loop_services import rota_of
from queue_samples import SetClock
from unit.broker.sockets.test_long_write import Loop

from routelog.amqp_front.connections.connection import Connection
from routelog.amqp_front.connections.connection_state import State
from routelog.amqp_front.sockets.command_turn import (
    AGAIN_BYTES,
    LATE_BYTES,
    TURN_COMMANDS_MAX,
    CommandTurn,
)
from routelog.amqp_front.sockets.rota import FAVOURED_SECONDS, HEARD_SECONDS, Rota
from routelog.amqp_front.wire.frame_cutter import FrameCutter
from routelog.broker.loop.cork import Cork
from routelog.log_backend import CLIENT_SECONDS
from routelog.vhosts import NodeCounters

HEARTBEAT = b"\x08\x00\x00\x00\x00\x00\x00\xce"
FRAME_MAX = 131_072
FRAMES = 2 * TURN_COMMANDS_MAX - 1  # less than 4 KiB, which would count, too


class SlowClock(SetClock):
    """Each look at it takes so much of a turn, as each command behind it would."""

    def __init__(self, turns: float) -> None:
        super().__init__()
        self._step = round(turns * CLIENT_SECONDS * 1e6)

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
        intake=SimpleNamespace(full=0),
        vhosts=SimpleNamespace(counters=NodeCounters()),
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


class LateTurn:
    """A turn of the loop that what was read has made long.

    Args:
        seconds: how long.
    """

    def __init__(self, seconds: float = HEARD_SECONDS) -> None:
        self.loop, self.clock = Loop(), SetClock()
        self.rota = Rota(cast(Any, self.loop), self.clock, Cork(cast(Any, self.loop)))
        assert not self.rota.is_late(False)
        self.clock.microseconds += round(seconds * 1e6) + 1
        self.went_on: list[str] = []

    def turn(self, *, has_waited: bool = False) -> CommandTurn:
        """Of a connection."""
        turn = CommandTurn(self.rota, self.clock)
        if has_waited:
            turn.begin()
        return turn

    def wait(self, turn: CommandTurn, name: str) -> None:
        turn.wait(lambda: self.went_on.append(name))


def test_who_has_much_to_say_in_a_long_turn_of_the_loop_says_it_in_another() -> None:
    late = LateTurn()
    turn = late.turn()
    assert len(turn.room(ROOM)) == LATE_BYTES
    assert turn.received(LATE_BYTES)
    late.wait(turn, "much")
    late.loop.turn()
    late.loop.turn()
    assert late.went_on == ["much"]
    assert len(turn.room(ROOM)) == len(ROOM)
    assert not turn.received(LATE_BYTES)


def test_who_has_little_to_say_is_heard_in_a_long_turn_too() -> None:
    turn = LateTurn().turn()
    turn.room(ROOM)
    assert not turn.received(LATE_BYTES - 1)


def test_who_has_little_to_say_waits_for_a_turn_when_this_one_is_very_long() -> None:
    turn = LateTurn(FAVOURED_SECONDS).turn()
    turn.room(ROOM)
    assert turn.received(LATE_BYTES - 1)


def test_who_has_little_to_say_goes_on_before_those_that_have_much() -> None:
    late = LateTurn(FAVOURED_SECONDS)
    for name, nbytes in (("much", LATE_BYTES), ("more", LATE_BYTES), ("little", 1)):
        turn = late.turn()
        turn.room(ROOM)
        assert turn.received(nbytes)
        late.wait(turn, name)
    while late.loop.soon:
        late.loop.turn()
    assert late.went_on == ["little", "much", "more"]


def test_whoever_is_read_while_somebody_waits_who_came_late_goes_behind() -> None:
    late = LateTurn(FAVOURED_SECONDS)
    first, second, waited = late.turn(), late.turn(), late.turn(has_waited=True)
    first.room(ROOM)
    assert first.received(1)
    late.wait(first, "first")
    late.clock.microseconds -= round(FAVOURED_SECONDS * 1e6)
    assert len(waited.room(ROOM)) == len(ROOM)
    assert not waited.received(1)
    assert len(second.room(ROOM)) == LATE_BYTES
    assert second.received(1)
    late.wait(second, "second")
    while late.loop.soon:
        late.loop.turn()
    assert late.went_on == ["first", "second"]


def test_a_read_that_is_full_by_chance_is_no_end() -> None:
    turn = CommandTurn(rota_of(Loop()), SetClock())
    assert len(turn.room(ROOM)) == len(ROOM)
    assert not turn.received(LATE_BYTES)
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


def test_who_has_waited_is_heard_where_others_are_late() -> None:
    late = LateTurn()
    assert len(late.turn(has_waited=True).room(ROOM)) == len(ROOM)
    assert len(late.turn().room(ROOM)) == LATE_BYTES


def test_who_has_waited_and_comes_late_is_read_some_more_and_goes_on_soon() -> None:
    late = LateTurn(FAVOURED_SECONDS)
    waiting, waited = late.turn(), late.turn(has_waited=True)
    for turn, name, nbytes in ((waiting, "wait", LATE_BYTES), (waited, "waited", AGAIN_BYTES)):
        assert len(turn.room(ROOM)) == nbytes
        assert turn.received(nbytes)
        late.wait(turn, name)
    while late.loop.soon:
        late.loop.turn()
    assert late.went_on == ["waited", "wait"]


def test_commands_have_a_turn_of_time_with_the_cork_in() -> None:
    loop, clock = Loop(), SetClock()
    cork = Cork(cast(Any, loop))
    turn = CommandTurn(Rota(cast(Any, loop), clock, cork), clock)
    looked = []

    def commands() -> None:
        looked.append((cork.is_in, turn.until - clock.monotonic()))

    turn.carry_out(cork, commands)
    assert looked == [(True, pytest.approx(CLIENT_SECONDS))]
