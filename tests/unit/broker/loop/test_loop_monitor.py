import asyncio
from collections.abc import Callable
from typing import cast

import pytest

from routelog.broker.loop.loop_monitor import (
    STRETCH_SECONDS,
    STRETCHES,
    TICK_SECONDS,
    WARN_MILLISECONDS,
    LoopMonitor,
)


class HeldLoop:
    """A loop whose clock is moved by hand."""

    def __init__(self) -> None:
        self.seconds = 50.0
        self.timer: Callable[[], None] | None = None

    def now(self) -> int:
        return int(self.seconds * 1e6)

    def monotonic(self) -> float:
        return self.seconds

    def call_later(self, delay: float, call: Callable[[], None]) -> "HeldLoop":
        assert delay == TICK_SECONDS
        self.timer = call
        return self

    def cancel(self) -> None:
        self.timer = None

    def pass_seconds(self, seconds: float, *, held: float = 0) -> None:
        """Ticks for so long; the first one is late by what the loop is held."""
        end = self.seconds + seconds
        while self.seconds < end:
            self.seconds += TICK_SECONDS + held
            held = 0
            assert self.timer is not None
            self.timer()


@pytest.fixture
def loop() -> HeldLoop:
    return HeldLoop()


@pytest.fixture
def monitor(loop: HeldLoop) -> LoopMonitor:
    monitor = LoopMonitor(cast(asyncio.AbstractEventLoop, loop), loop)
    monitor.start()
    return monitor


def test_a_loop_that_is_on_time_was_never_held(monitor: LoopMonitor, loop: HeldLoop) -> None:
    loop.pass_seconds(2 * STRETCH_SECONDS)
    assert monitor.longest_ms_last_minute == 0


def test_the_longest_hold_is_kept_for_a_minute(monitor: LoopMonitor, loop: HeldLoop) -> None:
    loop.pass_seconds(1, held=0.0401)
    loop.pass_seconds(1, held=0.0101)
    assert monitor.longest_ms_last_minute == 40
    loop.pass_seconds(STRETCHES * STRETCH_SECONDS - 5)
    assert monitor.longest_ms_last_minute == 40
    loop.pass_seconds(2 * STRETCH_SECONDS, held=0.0051)
    assert monitor.longest_ms_last_minute == 5


def test_a_long_hold_is_told_once(
    monitor: LoopMonitor, loop: HeldLoop, caplog: pytest.LogCaptureFixture
) -> None:
    loop.pass_seconds(1, held=(WARN_MILLISECONDS - 50) / 1000)
    loop.pass_seconds(2 * STRETCH_SECONDS)
    assert not caplog.messages
    for _ in range(5):
        loop.pass_seconds(1, held=(WARN_MILLISECONDS + 0.5) / 1000)
    loop.pass_seconds(2 * STRETCH_SECONDS)
    assert caplog.messages == [
        f"the event loop was held for {WARN_MILLISECONDS} ms: all clients waited"
    ]


def test_a_monitor_that_is_stopped_leaves_no_timer(monitor: LoopMonitor, loop: HeldLoop) -> None:
    monitor.stop()
    assert loop.timer is None
