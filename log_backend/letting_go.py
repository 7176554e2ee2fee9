"""Batches that nobody needs any more: freed in slices, as very many at once would hold the event loop."""

from collections.abc import Callable

from log_backend.record_batch import RecordBatch

# Of one turn of the event loop: 0.1 ms, or 1.5 where nobody has touched them for long.
FREED_MAX = 512


class LettingGo:
    """The last to know them.

    Args:
        call_soon: runs a function in the next turn of the event loop.
    """

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._call_soon = call_soon
        self._gone: list[list[RecordBatch | None]] = []

    def add(self, gone: list[RecordBatch | None]) -> None:
        """Free the batches of a list that nobody else has, after this turn."""
        if not gone:
            return
        if not self._gone:
            self._call_soon(self._turn)
        self._gone.append(gone)

    def _turn(self) -> None:
        left = FREED_MAX
        while self._gone and left > 0:
            last = self._gone[-1]
            size = len(last)
            del last[-left:]
            left -= size
            if not last:
                self._gone.pop()
        if self._gone:
            self._call_soon(self._turn)
