"""Who inside of the broker waits until the journal has come far enough."""

from collections import deque
from collections.abc import Callable


class JournalWaiters:
    """Calls that wait for positions of the journal; when it fails, they wait for ever."""

    def __init__(self) -> None:
        self._for_written: deque[tuple[int, Callable[[], None]]] = deque()
        self._for_durable: deque[tuple[int, Callable[[], None]]] = deque()

    def wait(self, position: int, done: Callable[[], None], *, durable: bool) -> None:
        """Call `done` when the journal is written up to a position, or durable.

        Args:
            position: as `Journal.append` gave it just before: never below that of an earlier call.
        """
        (self._for_durable if durable else self._for_written).append((position, done))

    def reached(self, written: int, durable: int) -> None:
        """The journal has come so far."""
        _call(self._for_written, written)
        _call(self._for_durable, durable)


def _call(waiting: deque[tuple[int, Callable[[], None]]], reached: int) -> None:
    while waiting and waiting[0][0] <= reached:
        waiting.popleft()[1]()
