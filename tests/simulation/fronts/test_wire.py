"""Bytes of a simulated connection wait on the way while nobody reads."""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

from simulation.fronts.wire import Medium, Wire
from simulation.network import Network
from simulation.scheduler import Scheduler

ROOM = 10


class _Host:
    is_there = True
    says_so = True
    is_paused = False

    def __init__(self, name: str) -> None:
        self.name = name

    def enter(self, call: Callable[..., object], *arguments: Any) -> None:
        call(*arguments)


class _Reader(asyncio.BufferedProtocol):
    """It takes a buffer of bytes, and then reads nothing for now: there is no room for more."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self.came = b""
        self._transport = transport
        self._room = bytearray(ROOM)

    def get_buffer(self, _sizehint: int) -> memoryview:
        return memoryview(self._room)

    def buffer_updated(self, nbytes: int) -> None:
        self.came += self._room[:nbytes]
        self._room = bytearray()
        self._transport.pause_reading()

    def go_on(self) -> None:
        self._room = bytearray(ROOM)
        self._transport.resume_reading()


def test_what_comes_while_nobody_reads_waits() -> None:
    scheduler, randomness = Scheduler(), Random(1)
    wire = Wire(
        Medium(scheduler, Network(scheduler, randomness), randomness), _Host("a"), _Host("b"), 1
    )
    reader = _Reader(wire.far)
    wire.far.set_protocol(reader)
    sent = bytes(range(3 * ROOM))
    wire.near.write(sent)
    wire.out.carry_now()
    assert reader.came == sent[:ROOM]
    for _ in range(2):
        reader.go_on()
        scheduler.run_until(scheduler.now + 1)
    assert reader.came == sent
