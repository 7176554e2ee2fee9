"""Batches that nobody needs any more: freed in turns, as very many at once would hold the event loop."""

from routelog.log_backend.loop.scheduler import Lane, Scheduler
from routelog.log_backend.records.record_batch import RecordBatch

FREED_AT_ONCE = 32  # 0.2 to 14 us each, as they are large, or cold


class GradualFree:
    """The last to know them."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._gone: list[list[RecordBatch | None]] = []

    def add(self, gone: list[RecordBatch | None]) -> None:
        """Free the batches of a list, as far as nobody else has them, in later passes of the loop."""
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
