"""How long the machine kept this process from going on: with that, no time can be kept."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

TICK_SECONDS = 0.01
PAUSE_SECONDS_MIN = 0.05  # less is the other threads of this process


class MachinePauses:
    """A thread that only sleeps, and notes when it was woken late."""

    def __init__(self) -> None:
        self._pauses: list[tuple[float, float]] = []  # when one ended, and its seconds
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def since(self, moment: float) -> float:
        """Seconds of the pauses that ended after a monotonic time."""
        return sum(seconds for ended, seconds in self._pauses if ended > moment)

    def stop(self) -> None:
        """End the thread."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        before = time.monotonic()
        while not self._stopping.wait(TICK_SECONDS):
            now = time.monotonic()
            late = now - before - TICK_SECONDS
            if late > PAUSE_SECONDS_MIN:
                self._pauses.append((now, late))
            before = now


@pytest.fixture
def pauses() -> Iterator[MachinePauses]:
    """Those of the machine during the test."""
    noted = MachinePauses()
    yield noted
    noted.stop()
