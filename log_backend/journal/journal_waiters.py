"""Who inside of the broker waits until the journal has come far enough."""

from collections.abc import Callable

Calls = dict[int, list[Callable[[], None]]]  # by position: few at a time, of the blocks under way


class JournalWaiters:
    """Calls that wait for positions of the journal; when it fails, they wait for ever."""

    def __init__(self) -> None:
        self._for_written: Calls = {}
        self._for_committed: Calls = {}

    def wait(self, position: int, done: Callable[[], None], *, committed: bool) -> None:
        """Call `done` when the journal is written up to a position that it has not reached, or committed."""
        waiting = self._for_committed if committed else self._for_written
        waiting.setdefault(position, []).append(done)

    def reached(self, written: int, committed: int) -> None:
        """The journal has come so far."""
        _call(self._for_written, written)
        _call(self._for_committed, committed)


def _call(waiting: Calls, reached: int) -> None:
    for position in sorted(each for each in waiting if each <= reached):
        for done in waiting.pop(position):
            done()
