"""Connections that end, some in each turn of the loop: hundreds may end at the same moment."""

from collections import deque
from collections.abc import Callable

CLOSED_MAX = 8  # of one turn: each takes 20 to 150 us, with what is let go of


class CloseThrottle:
    """Takes leave of connections in the order in which they end; of one that ends alone, at once.

    Args:
        call_soon: calls in the next turn of the loop.
    """

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._call_soon = call_soon
        self._taken = 0  # in this turn
        self._waiting: deque[Callable[[], None]] = deque()

    def run(self, call: Callable[[], None]) -> None:
        """Call `call`, now or in a later turn."""
        if not self._taken:
            self._call_soon(self._next_turn)
        if self._taken < CLOSED_MAX:
            self._taken += 1
            call()
        else:
            self._waiting.append(call)

    def _next_turn(self) -> None:
        self._taken = min(len(self._waiting), CLOSED_MAX)
        if self._taken:
            self._call_soon(self._next_turn)
        for _ in range(self._taken):
            self._waiting.popleft()()  # if it raises, the others have the next turn
