"""How much of what a connection has received is carried out in one pass of the event loop."""

from __future__ import annotations

from math import inf
from types import SimpleNamespace
from typing import Any

import pytest
from support.loop_services import scheduler_on
from support.queue_samples import SetClock
from unit.broker.sockets.test_long_write import Loop

from routelog.amqp_front.connections.connection import LATE_BYTES_MAX, LITTLE_BYTES, Connection
from routelog.amqp_front.connections.connection_methods import State
from routelog.amqp_front.wire.frame_cutter import FrameCutter
from routelog.broker.loop.cork import Cork
from routelog.log_backend import Lane
from routelog.log_backend.loop.scheduler import CLIENT_SECONDS, READ_SECONDS
from routelog.vhosts import NodeCounters

HEARTBEAT = b"\x08\x00\x00\x00\x00\x00\x00\xce"
FRAME_MAX = 131_072


class SlowClock(SetClock):
    """Each look at it takes so much of a client's turn, as each command behind it would."""

    def __init__(self, turns: float) -> None:
        super().__init__()
        self._step = round(turns * CLIENT_SECONDS * 1e6)

    def monotonic(self) -> float:
        """See `Clock`."""
        self.microseconds += self._step
        return super().monotonic()


class SharedLoop:
    """Connections that share a loop."""

    def __init__(self, clock: SetClock) -> None:
        self.loop = Loop()
        self.services: Any = SimpleNamespace(
            cutter=FrameCutter(FRAME_MAX),
            loop=self.loop,
            clock=clock,
            cork=Cork(),
            scheduler=scheduler_on(self.loop, clock),
            gate=SimpleNamespace(closed=False, lapses_at=inf),
            intake=SimpleNamespace(full=0),
            publish_rates=SimpleNamespace(are_set=False),
            vhosts=SimpleNamespace(counters=NodeCounters()),
        )

    def connection(self) -> Connection:
        """One that is open."""
        connection = Connection(self.services, SimpleNamespace(opened=None, closed=None))
        connection.state = State.OPEN
        return connection

    def read(self, connection: Connection, frames: int) -> int:
        """Read so many frames, as far as there is room; returns how many are left."""
        sent = HEARTBEAT * frames
        room = connection.get_buffer(-1)
        taken = min(len(room), len(sent))
        room[:taken] = sent[:taken]
        connection.buffer_updated(taken)
        return left_of(connection)


def left_of(connection: Connection) -> int:
    """Frames that were read and not carried out."""
    connection.receive_buffer.again()
    return len(connection.services.cutter.unread()) // len(HEARTBEAT)


@pytest.mark.parametrize(("turns", "each"), [(1.5, 1), (0.26, 3)])
def test_commands_are_carried_out_until_they_have_taken_a_turn(turns: float, each: int) -> None:
    node = SharedLoop(SlowClock(turns))
    connection = node.connection()
    left = [node.read(connection, 20)]
    while left[-1]:
        node.loop.turn()
        left.append(left_of(connection))
    taken = {before - after for before, after in zip([20, *left], left, strict=False)} - {0}
    assert max(taken) <= each + 1
    assert node.services.scheduler.waiting(Lane.CLIENTS) <= 1


def test_quick_commands_are_carried_out_at_once() -> None:
    node = SharedLoop(SetClock())
    assert node.read(node.connection(), 10_000) == 0


@pytest.mark.parametrize(
    ("frames", "lane"), [(LITTLE_BYTES // 8 - 1, Lane.LATE), (LITTLE_BYTES // 8, Lane.CLIENTS)]
)
def test_who_is_read_late_waits_and_who_has_little_to_say_is_heard_first(
    frames: int, lane: Lane
) -> None:
    clock = SetClock()
    clock.microseconds = 1_000_000
    node = SharedLoop(clock)
    node.read(node.connection(), 1)
    clock.microseconds += round(READ_SECONDS * 1e6)
    connection = node.connection()
    assert node.read(connection, frames) == frames
    assert node.services.scheduler.waiting(lane) == 1
    node.loop.turn()
    assert left_of(connection) == 0


def test_all_that_come_late_together_keep_few_bytes() -> None:
    clock = SetClock()
    clock.microseconds = 1_000_000
    node = SharedLoop(clock)
    node.read(node.connection(), 1)
    clock.microseconds += round(READ_SECONDS * 1e6)
    first = node.connection()
    assert len(first.get_buffer(-1)) == len(first.receive_buffer.room())
    scheduler = node.services.scheduler
    for _ in range(LATE_BYTES_MAX // LITTLE_BYTES):
        scheduler.call(Lane.CLIENTS, lambda: None)
    assert len(first.get_buffer(-1)) == LITTLE_BYTES
