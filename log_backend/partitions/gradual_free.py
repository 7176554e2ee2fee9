"""Frees many batches in turns: to free all at once would block the event loop."""

from routelog.log_backend.loop.scheduler import Lane, Scheduler
from routelog.log_backend.records.record_batch import RecordBatch

FREED_AT_ONCE = 32  # each takes 0.2 to 14 us, depending on its size and on the processor's cache


class GradualFree:
    """Holds the last references to batches, and drops a few in each pass of the loop."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._gone: list[list[RecordBatch | None]] = []

    def add(self, gone: list[RecordBatch | None]) -> None:
        """Drop the batches of a list, in later passes of the loop."""
        if not gone:
            return
        if not self._gone:
            self._scheduler.call(Lane.UPKEEP, self._free_some)
        self._gone.append(gone)

    def _free_some(self) -> bool:
        left = FREED_AT_ONCE
        while self._gone and left > 0:
            last = self._gone[-1]
            size = len(last)
            del last[-left:]
            left -= size
            if not last:
                self._gone.pop()
        return bool(self._gone)
