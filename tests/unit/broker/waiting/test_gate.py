"""The gate that publishers wait at."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from routelog.broker.waiting.gate import TELL_SECONDS, UNLED, Gate

DISK, JOURNAL, MEMORY = frozenset({"disk"}), frozenset({"journal"}), frozenset({"memory"})
NONE: frozenset[str] = frozenset()


class Loop:
    """A loop of which only the timers are used; they ring when the test says so."""

    def __init__(self) -> None:
        self.timers: list[Timer] = []

    def call_later(self, seconds: float, call: Callable[[], None]) -> Timer:
        assert seconds == TELL_SECONDS
        self.timers.append(Timer(self, call))
        return self.timers[-1]

    def ring(self) -> None:
        for timer in self.timers[:]:
            timer.call()


class Timer:
    def __init__(self, loop: Loop, call: Callable[[], None]) -> None:
        self.loop, self.call = loop, call

    def cancel(self) -> None:
        if self in self.loop.timers:
            self.loop.timers.remove(self)


class Waiting:
    def __init__(self) -> None:
        self.times = 0
        self.told: list[str] = []

    def tell_blocked(self, reason: str) -> None:
        self.told.append(reason)

    def let_go(self) -> None:
        self.times += 1


def gate_and_loop() -> tuple[Gate, Loop]:
    loop = Loop()
    return Gate(cast(Any, loop)), loop


def test_those_held_go_on_once_when_the_gate_opens() -> None:
    (gate, _), held, free = gate_and_loop(), Waiting(), Waiting()
    assert not gate.closed
    gate.close_for(JOURNAL)
    assert gate.closed
    gate.hold(held)
    gate.hold(held)
    gate.close_for(JOURNAL | MEMORY)
    gate.close_for(MEMORY)
    assert held.times == 0
    gate.close_for(NONE)
    gate.close_for(NONE)
    assert not gate.closed
    assert (held.times, free.times) == (1, 0)


def test_a_connection_that_is_gone_is_not_called() -> None:
    (gate, loop), gone = gate_and_loop(), Waiting()
    gate.close_for(JOURNAL)
    gate.hold(gone)
    gate.forget(gone)
    gate.forget(gone)
    loop.ring()
    gate.close_for(NONE)
    assert gone.times == 0
    assert not gone.told


def test_a_connection_that_is_held_again_while_the_gate_opens_waits_for_the_next_time() -> None:
    gate, _ = gate_and_loop()

    class Busy(Waiting):
        def let_go(self) -> None:
            super().let_go()
            gate.hold(self)

    busy = Busy()
    gate.close_for(JOURNAL)
    gate.hold(busy)
    gate.close_for(NONE)
    assert busy.times == 1
    gate.close_for(NONE)
    assert busy.times == 2


def test_a_disk_that_is_low_is_told_at_once_to_those_held_and_to_those_who_come() -> None:
    (gate, loop), early, late = gate_and_loop(), Waiting(), Waiting()
    gate.close_for(JOURNAL)
    gate.hold(early)
    assert not early.told
    gate.close_for(JOURNAL | DISK)
    assert early.told == ["low on disk & waiting for a slow disk"]
    assert not loop.timers
    gate.close_for(DISK)
    gate.hold(late)
    assert late.told == ["low on disk"]
    gate.close_for(NONE)
    again = Waiting()
    gate.close_for(JOURNAL)
    gate.hold(again)
    assert not again.told


def test_a_missing_descriptor_is_no_low_disk() -> None:
    (gate, loop), held = gate_and_loop(), Waiting()
    gate.hold(held)
    gate.close_for(frozenset({"files"}))
    (timer,) = loop.timers
    timer.call()
    assert held.told == ["low on file descriptors"]
    assert gate.alarms == {"files"}


def test_a_short_pause_is_not_told() -> None:
    (gate, loop), held = gate_and_loop(), Waiting()
    gate.close_for(MEMORY)
    gate.hold(held)
    gate.close_for(NONE)
    assert not loop.timers
    assert not held.told


def test_a_long_pause_is_told_once() -> None:
    (gate, loop), held = gate_and_loop(), Waiting()
    gate.close_for(JOURNAL)
    gate.hold(held)
    gate.close_for(JOURNAL | MEMORY)
    assert len(loop.timers) == 1
    loop.ring()
    assert held.told == ["low on memory & waiting for a slow disk"]
    gate.close_for(MEMORY)
    gate.close_for(MEMORY | DISK)
    assert len(held.told) == 1
    assert not loop.timers


def test_a_journal_that_is_behind_for_a_moment_is_no_alarm() -> None:
    loop = Loop()
    gate = Gate(cast(Any, loop))
    gate.close_for(JOURNAL | MEMORY)
    assert gate.alarms == MEMORY
    loop.ring()
    assert gate.alarms == JOURNAL | MEMORY
    gate.close_for(NONE)
    assert gate.alarms == NONE
    gate.close_for(DISK | JOURNAL)
    assert gate.alarms == DISK | JOURNAL


def test_who_has_waited_longest_goes_on_first() -> None:
    gate, _ = gate_and_loop()
    order: list[int] = []
    gate.close_for(JOURNAL)
    for at in range(20):
        held = Waiting()
        held.let_go = lambda at=at: order.append(at)  # type: ignore[method-assign, misc]
        gate.hold(held)
    gate.close_for(NONE)
    assert order == list(range(20))


async def test_who_asks_waits_for_the_node_that_leads_and_for_nothing_else() -> None:
    gate = Gate(asyncio.get_running_loop())
    gate.close_for(MEMORY)
    assert gate.led() is None
    gate.close_for(MEMORY | {UNLED})
    given_up, waiting = gate.led(), gate.led()
    assert given_up is not None
    assert waiting is not None
    given_up.cancel()
    gate.close_for(frozenset({UNLED}))
    await asyncio.sleep(0)
    assert not waiting.done()
    gate.close_for(MEMORY)
    await waiting
    assert gate.led() is None
    gate.close_for(NONE)
