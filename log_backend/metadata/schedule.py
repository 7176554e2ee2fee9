"""The schedule of some partitions: their records by the time at which they are due, however many there are.

What is due next is in memory, up to a horizon; all of it is in the store, a moment later. So a record is
entered, found and struck out at a cost that does not depend on how many wait, and memory is bounded.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from typing import Protocol

from routelog.log_backend.metadata.schedule_store import ScheduledRecord, ScheduleStore

NEAR_MAX = 16_384  # records in memory: 3 MB, and 20 ms to sort when they are too many
NEAR_MIN = 2_048  # with fewer of them, more are read: some ms of work ahead of a fast consumer
PAGE_RECORDS = 4_096  # read at once: about 10 ms in the thread
TOLD_MAX = 1_024  # changes that gather before they are written
WRITE_SECONDS = 0.1  # that they gather at most

log = logging.getLogger(__name__)

FIRST = ScheduledRecord(0, 0, 0)
NEVER = ScheduledRecord(2**63 - 1, 255, 2**63 - 1)


class Timer(Protocol):
    """A call that will come."""

    def cancel(self) -> None:
        """Do not make it."""


class Schedule:
    """The records of one schedule.

    Args:
        number: of the schedule, never given twice.
        ends: of the parts: every record below was entered.
        on_near: called when records have come into memory.

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
        self._meanwhile: list[ScheduledRecord] = []  # entered behind the horizon during a read
        self._reading = False
        self._added: list[ScheduledRecord] = []
        self._removed: list[ScheduledRecord] = []
        self._ends_told = list(ends)
        self._timer: Timer | None = None
        self._closed = False
        store.opened(self.flush)

    def check_ends(self, logs_end: Sequence[int]) -> None:
        """After a start, believe no end that a part does not reach: a crash took what was entered.

        Those offsets are given again, and a further crash may take their entries.
        """
        for part, (end, behind) in enumerate(zip(self.ends, logs_end, strict=True)):
            if end > behind:
                self.ends[part] = self._ends_told[part] = behind
                self._store.withdraw_end(self.number, part, behind)

    @property
    def next_due(self) -> int | None:
        """When the next record is due (us since 1970); None: nothing is, or it is being read."""
        return self._near[0].due if self._near else None

    @property
    def near_count(self) -> int:
        """Records in memory."""
        return len(self._near)

    def read_ahead(self) -> None:
        """See that what is due next is in memory, or soon is."""
        if self._reading or self._closed or self._horizon == NEVER or len(self._near) >= NEAR_MIN:
            return
        self.flush()
        self._reading = True
        found = self._store.read(self.number, self._horizon, PAGE_RECORDS)
        found.add_done_callback(self._read)

    def add(self, records: Sequence[ScheduledRecord], part: int, end: int) -> None:
        """Enter records of a part: with them, all of it below an offset are entered."""
        for record in records:
            if record < self._horizon:
                heappush(self._near, record)
            elif self._reading:
                self._meanwhile.append(record)
        self._added += records
        self.ends[part] = end
        if len(self._near) > NEAR_MAX and not self._reading:
            self._draw_horizon_nearer()
        self._wake()

    def take_due(self, until: int, count_max: int) -> list[ScheduledRecord]:
        """Take the records that are due at a time or before it out of memory, the earliest first.

        They are entered until they are struck out.
        """
        taken: list[ScheduledRecord] = []
        near = self._near
        while near and near[0].due <= until and len(taken) < count_max:
            taken.append(heappop(near))
        self.read_ahead()
        return taken

    def strike_out(self, records: Sequence[ScheduledRecord]) -> None:
        """These are settled; one that is in memory stays there, and is found to be so."""
        self._removed += records
        self._wake()

    def clear(self, kept: Sequence[ScheduledRecord]) -> None:
        """Strike out everything but some records, which were taken out of memory.

        Until the next `flush`, which may wait until a crash cannot take back what was settled, a start
        enters all anew that it finds in the partitions.
        """
        self._cancel_timer()
        self._near.clear()
        self._meanwhile.clear()
        self._added, self._removed = list(kept), []
        self._horizon = NEVER
        self._store.delete(self.number)
        self._ends_told = [-1] * len(self.ends)

    def page(self, first: ScheduledRecord, count: int) -> "asyncio.Future[list[ScheduledRecord]]":
        """What is entered, from an entry on, as it is due; settled records may be among it."""
        self.flush()
        return self._store.read(self.number, first, count)

    def flush(self) -> None:
        """Have the store told of everything."""
        self._cancel_timer()
        told = {
            part: end
            for part, (end, before) in enumerate(zip(self.ends, self._ends_told, strict=True))
            if end != before
        }
        if self._added or self._removed or told:
            self._store.write(self.number, self._added, self._removed, told)
            self._added, self._removed, self._ends_told = [], [], list(self.ends)

    def delete(self) -> None:
        """The partitions are gone."""
        self.close()
        self._added, self._removed, self._ends_told = [], [], list(self.ends)
        self._store.delete(self.number)

    def close(self) -> None:
        """Do nothing more."""
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
        if len(self._added) + len(self._removed) >= TOLD_MAX:
            self.flush()
        elif self._timer is None:
            self._timer = self._call_later(WRITE_SECONDS, self.flush)

    def _draw_horizon_nearer(self) -> None:
        # What is dropped is in the store, or told to it before it is read again.
        self._near.sort()
        kept = NEAR_MAX // 2
        self._horizon = self._near[kept]
        del self._near[kept:]

    def _read(self, future: "asyncio.Future[list[ScheduledRecord]]") -> None:
        self._reading = False
        meanwhile, self._meanwhile = self._meanwhile, []
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
        self._near += [each for each in meanwhile if each < horizon]
        heapify(self._near)
        self._horizon = horizon
        self.read_ahead()
        self._on_near()
