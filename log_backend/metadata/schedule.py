"""A schedule: the records of some partitions, ordered by the time at which they are due.

Records that are due before a horizon are in memory; all records are in the store, up to 0.1 s later. So memory
is bounded, and the cost of adding, finding and removing a record does not depend on how many there are.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from typing import Protocol

from routelog.log_backend.metadata.schedule_store import ScheduledRecord, ScheduleStore

NEAR_MAX = 16_384  # records in memory: 3 MB; above it, they are sorted in 20 ms and halved
NEAR_MIN = 2_048  # below it, more records are read: a fast consumer takes some ms for so many
PAGE_RECORDS = 4_096  # read at once: about 10 ms in the thread
CHANGES_MAX = 1_024  # changes that gather before they are written
WRITE_SECONDS = 0.1  # the longest time that they gather

log = logging.getLogger(__name__)

FIRST = ScheduledRecord(0, 0, 0)
NEVER = ScheduledRecord(2**63 - 1, 255, 2**63 - 1)


class Timer(Protocol):
    """A timer of the event loop."""

    def cancel(self) -> None:
        """Stop it."""


class Schedule:
    """The records of one schedule.

    Args:
        number: of the schedule, never used again.
        ends: by part (partition): every record below this offset was added.
        on_near: called when records were read into memory.

    Invariant: memory holds exactly the records before the horizon.
    """

    def __init__(
        self,
        number: int,
        store: ScheduleStore,
        ends: Sequence[int],
        call_later: Callable[[float, Callable[[], None]], Timer],
        on_near: Callable[[], None],
    ) -> None:
        self.number = number
        self.ends = list(ends)
        self._store = store
        self._call_later = call_later
        self._on_near = on_near
        self._near: list[ScheduledRecord] = []  # a heap
        self._horizon = FIRST
        self._added_during_read: list[ScheduledRecord] = []  # behind the horizon
        self._reading = False
        self._added: list[ScheduledRecord] = []  # since the last write
        self._removed: list[ScheduledRecord] = []
        self._stored_ends = list(ends)
        self._timer: Timer | None = None
        self._closed = False
        store.opened(self.flush)

    def check_ends(self, logs_end: Sequence[int]) -> None:
        """After a start, lower each end that is behind the end of its log: a crash took those records.

        Their offsets will be given again, and a later crash may take the new records' entries. So the lower
        end is made durable.
        """
        for part, (end, log_end) in enumerate(zip(self.ends, logs_end, strict=True)):
            if end > log_end:
                self.ends[part] = self._stored_ends[part] = log_end
                self._store.withdraw_end(self.number, part, log_end)

    @property
    def next_due(self) -> int | None:
        """When the next record is due (us since 1970); None: there is none, or it is being read."""
        return self._near[0].due if self._near else None

    def read_ahead(self) -> None:
        """Begin to read more records if few are left in memory."""
        if self._reading or self._closed or self._horizon == NEVER or len(self._near) >= NEAR_MIN:
            return
        self.flush()
        self._reading = True
        found = self._store.read(self.number, self._horizon, PAGE_RECORDS)
        found.add_done_callback(self._read)

    def add(self, records: Sequence[ScheduledRecord], part: int, end: int) -> None:
        """Add records of a part: all of its records below the offset `end` are added then."""
        for record in records:
            if record < self._horizon:
                heappush(self._near, record)
            elif self._reading:
                self._added_during_read.append(record)
        self._added += records
        self.ends[part] = end
        if len(self._near) > NEAR_MAX and not self._reading:
            self._draw_horizon_nearer()
        self._wake()

    def take_due(self, until: int, count_max: int) -> list[ScheduledRecord]:
        """Take the records that are due by a time out of memory, the earliest first.

        They stay in the store until `strike_out`.
        """
        taken: list[ScheduledRecord] = []
        near = self._near
        while near and near[0].due <= until and len(taken) < count_max:
            taken.append(heappop(near))
        self.read_ahead()
        return taken

    def strike_out(self, records: Sequence[ScheduledRecord]) -> None:
        """Remove settled records from the store. Those in memory stay: the caller of `take_due` skips them."""
        self._removed += records
        self._wake()

    def clear(self, kept: Sequence[ScheduledRecord]) -> None:
        """Remove everything but some records, which were taken out of memory.

        Until the next `flush`, a start adds all records again that it finds in the partitions. So a caller can
        delay the `flush` until the settlements are durable.
        """
        self._cancel_timer()
        self._near.clear()
        self._added_during_read.clear()
        self._added, self._removed = list(kept), []
        self._horizon = NEVER
        self._store.delete(self.number)
        self._stored_ends = [-1] * len(self.ends)

    def page(self, first: ScheduledRecord, count: int) -> "asyncio.Future[list[ScheduledRecord]]":
        """Records from one on, in the order in which they are due; some of them may be settled."""
        self.flush()
        return self._store.read(self.number, first, count)

    def flush(self) -> None:
        """Give all gathered changes to the store."""
        self._cancel_timer()
        ends = {
            part: end
            for part, (end, stored) in enumerate(zip(self.ends, self._stored_ends, strict=True))
            if end != stored
        }
        if self._added or self._removed or ends:
            self._store.write(self.number, self._added, self._removed, ends)
            self._added, self._removed, self._stored_ends = [], [], list(self.ends)

    def delete(self) -> None:
        """Delete the schedule: its partitions are deleted."""
        self.close()
        self._added, self._removed, self._stored_ends = [], [], list(self.ends)
        self._store.delete(self.number)

    def close(self) -> None:
        """Write nothing more, and make no more calls."""
        self._closed = True
        self._store.closed(self.flush)
        self._cancel_timer()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wake(self) -> None:
        if self._closed:
            return
        if len(self._added) + len(self._removed) >= CHANGES_MAX:
            self.flush()
        elif self._timer is None:
            self._timer = self._call_later(WRITE_SECONDS, self.flush)

    def _draw_horizon_nearer(self) -> None:
        # The dropped records are in the store, or will be written to it before the next read.
        self._near.sort()
        kept = NEAR_MAX // 2
        self._horizon = self._near[kept]
        del self._near[kept:]

    def _read(self, future: "asyncio.Future[list[ScheduledRecord]]") -> None:
        self._reading = False
        added, self._added_during_read = self._added_during_read, []
        if self._closed or future.cancelled():
            return
        if (error := future.exception()) is not None:
            log.error("a schedule cannot be read; a restart goes on with it: %s", error)
            return
        found = future.result()
        horizon = NEVER
        if len(found) == PAGE_RECORDS:
            last = found[-1]
            horizon = last._replace(offset=last.offset + 1)
        self._near += found
        self._near += [each for each in added if each < horizon]
        heapify(self._near)
        self._horizon = horizon
        self.read_ahead()
        self._on_near()
