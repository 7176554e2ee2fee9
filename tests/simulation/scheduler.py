"""Virtual time: what is to happen, in order."""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any


class Scheduler:
    """Calls in the order of their times; equal ones in the order in which they were asked for."""

    def __init__(self) -> None:
        self.now = 0.0
        self._calls: list[tuple[float, int, Callable[..., Any], tuple[Any, ...]]] = []
        self._count = 0

    def after(self, delay: float, call: Callable[..., Any], *arguments: Any) -> None:
        """Call something later."""
        self._count += 1
        heappush(self._calls, (self.now + delay, self._count, call, arguments))

    def run_until(self, time: float) -> None:
        """Let everything happen that is due until then."""
        while self._calls and self._calls[0][0] <= time:
            self.now, _, call, arguments = heappop(self._calls)
            call(*arguments)
        self.now = time
