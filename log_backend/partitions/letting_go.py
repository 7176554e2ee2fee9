"""Batches that nobody needs any more: freed in turns, as very many at once would hold the event loop."""

from collections.abc import Callable

from routelog.log_backend.doors.clock import Clock
from routelog.log_backend.records.record_batch import RecordBatch

TURN_SECONDS = 0.0005  # of one turn of the event loop
FREED_AT_ONCE = 32  # between two looks at the clock: 0.2 to 14 us each, as they are large, or cold


class LettingGo:
    """The last to know them.

    Args:
        call_soon: runs a function in the next turn of the event loop.
    """

    def __init__(self, call_soon: Callable[[Callable[[], None]], object], clock: Clock) -> None:
        self._call_soon = call_soon
        self._monotonic = clock.monotonic
        self._gone: list[list[RecordBatch | None]] = []

    def add(self, gone: list[RecordBatch | None]) -> None:
        """Free the batches of a list, as far as nobody else has them, after this turn."""
        if not gone:
            return
        if not self._gone:
            self._call_soon(self._turn)
        self._gone.append(gone)

    def _turn(self) -> None:
        until = self._monotonic() + TURN_SECONDS
        while self._gone:
            left = FREED_AT_ONCE
            while self._gone and left > 0:
                last = self._gone[-1]
                size = len(last)
                del last[-left:]
                left -= size
                if not last:
                    self._gone.pop()
            if self._monotonic() >= until:
                break
        if self._gone:
            self._call_soon(self._turn)
