"""A schedule: the records of some partitions, ordered by the time at which they are due.

The store has what is committed: a record up to 0.1 s later than that, and no record that another leader may
replace. Memory has the page of the store that is due next, and what came since it was read, which includes all
that is not stored. So memory is bounded, and the cost of adding, finding and removing a record does not depend
on how many there are.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from heapq import heapify, heappop, heappush, nsmallest

from routelog.log_backend.doors.clock import CallLater, Timer
from routelog.log_backend.metadata.schedule_store import ScheduledRecord, ScheduleStore

PAGE_RECORDS = 4_096  # read at once: about 10 ms in the thread
RECENT_MAX = 16_384  # stored since the last page was read, and still in memory: 3 MB
CHANGES_MAX = 1_024  # changes that gather before they are written
WRITE_SECONDS = (
    0.1  # the longest time that they gather, and until it is seen what is committed meanwhile
)

log = logging.getLogger(__name__)

FIRST = ScheduledRecord(0, 0, 0)
NEVER = ScheduledRecord(2**63 - 1, 255, 2**63 - 1)


class Schedule:
    """The records of one schedule.

    Args:
        number: of the schedule.
        ends: by part (partition): every record below this offset is in the store, unless it was removed.
        committed_end: where the committed records of a part end.
        on_near: called when records were read into memory.

    Invariant: memory has every record before the end of its page that was not taken. Of later ones it has
    those that are not in the store.
    """

    def __init__(
        self,
        number: int,
        store: ScheduleStore,
        ends: Sequence[int],
        committed_end: Callable[[int], int],
        call_later: CallLater,
        on_near: Callable[[], None],
    ) -> None:
        self.number = number
        self.ends = list(ends)  # every record below was added
        self._store = store
        self._committed_end = committed_end
        self._call_later = call_later
        self._on_near = on_near
        self._known: list[ScheduledRecord] = []  # a heap
        self._page_end = FIRST
        self._taken: set[ScheduledRecord] = set()  # a page may have them again
        self._reading = False
        # By part, in the order of offsets: added, and not in the store
        self._unstored: list[deque[ScheduledRecord]] = [deque() for _ in ends]
        self._recent: list[
            ScheduledRecord
        ] = []  # not in the store when the last page was asked for
        self._stored_since = 0  # the last page was asked for
        self._removed: list[ScheduledRecord] = []
        self._removed_since: list[ScheduledRecord] = []  # the last page was asked for
        self._changes = 0  # since the last flush
        self._stored_ends = list(ends)
        self._timer: Timer | None = None
        self._closed = False
        store.opened(self.flush)

    def check_ends(self, log_ends: Sequence[int]) -> None:
        """After a start, forget all if some end is behind the end of its log.

        The log was cut by a repair, or by a power cut where its confirms do not wait for the disk. Its offsets
        will be given again, and the store tells of other records.
        """
        if any(end > log_end for end, log_end in zip(self.ends, log_ends, strict=True)):
            self._store.forget(self.number)
            self.ends = [0] * len(self.ends)
            self._stored_ends = list(self.ends)

    @property
    def next_due(self) -> int | None:
        """When the next record is due (us since 1970); None: there is none, or it is being read."""
        return self._known[0].due if self._has_next() else None

    def read_ahead(self) -> None:
        """Begin to read the next page if the last one is used up, or much was stored since."""
        is_used_up = self._page_end != NEVER and not self._has_next()
        if self._reading or self._closed or not (is_used_up or self._stored_since >= RECENT_MAX):
            return
        self._reading = True
        self.flush()
        self._taken.difference_update(self._removed_since)
        self._recent, self._removed_since = list(self._all_unstored()), []
        self._stored_since = 0
        first = min(self._known[0], self._page_end) if self._known else self._page_end
        self._store.read(self.number, first, PAGE_RECORDS).add_done_callback(self._read)

    def add(self, records: Sequence[ScheduledRecord], part: int, end: int) -> None:
        """Add records of a part: all of its records below the offset `end` are added then."""
        for record in records:
            heappush(self._known, record)
        self._recent += records
        self._unstored[part] += records
        self.ends[part] = end
        self._changed(len(records))

    def take_due(self, until: int, count_max: int) -> list[ScheduledRecord]:
        """Take the records that are due by a time out of memory, the earliest first.

        They stay in the store until `strike_out`.
        """
        taken: list[ScheduledRecord] = []
        known = self._known
        while self._has_next() and known[0].due <= until and len(taken) < count_max:
            taken.append(heappop(known))
        self._taken.update(taken)
        self.read_ahead()
        return taken

    def strike_out(self, records: Sequence[ScheduledRecord]) -> None:
        """Remove records whose settlements are committed.

        Those in memory stay: the caller of `take_due` skips them.
        """
        self._removed += records
        self._changed(len(records))

    def strike_out_below(self, ends: Sequence[int], kept: Sequence[ScheduledRecord]) -> None:
        """Remove the records below an offset of each part, but for some; see `strike_out`."""
        self.flush()
        if not self._closed:
            self._store.remove_below(self.number, ends, kept)

    async def page(self, first: ScheduledRecord, count: int) -> list[ScheduledRecord]:
        """Records from one on, in the order in which they are due; some of them may be settled."""
        self.flush()
        unstored = [each for each in self._all_unstored() if each >= first]
        found = await self._store.read(self.number, first, count)
        return nsmallest(count, {*found, *unstored})

    def flush(self) -> None:
        """Give what is committed to the store."""
        if self._closed:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        added, ends = [], {}
        for part, unstored in enumerate(self._unstored):
            end = min(self.ends[part], self._committed_end(part))
            while unstored and unstored[0].offset < end:
                added.append(unstored.popleft())
            if end > self._stored_ends[part]:
                ends[part] = self._stored_ends[part] = end
        if added or self._removed or ends:
            self._store.write(self.number, added, self._removed, ends)
            self._removed_since += self._removed
            self._removed = []
            self._stored_since += len(added)
        self._changes = 0
        if self._stored_ends != self.ends:
            self._wake()
        self.read_ahead()

    def delete(self) -> None:
        """Delete the schedule: its partitions are deleted."""
        self.close()
        self._store.delete(self.number)

    def close(self) -> None:
        """Write nothing more, and make no more calls."""
        self._closed = True
        self._store.closed(self.flush)
        if self._timer is not None:
            self._timer.cancel()

    def _has_next(self) -> bool:
        return bool(self._known) and self._known[0] < self._page_end

    def _all_unstored(self) -> Iterator[ScheduledRecord]:
        return (each for unstored in self._unstored for each in unstored)

    def _changed(self, count: int) -> None:
        self._changes += count
        if self._changes >= CHANGES_MAX:
            self.flush()
        else:
            self._wake()

    def _wake(self) -> None:
        if self._timer is None and not self._closed:
            self._timer = self._call_later(WRITE_SECONDS, self.flush)

    def _read(self, future: "asyncio.Future[list[ScheduledRecord]]") -> None:
        self._reading = False
        if self._closed or future.cancelled():
            return
        if (error := future.exception()) is not None:
            log.error("a schedule cannot be read; a restart goes on with it: %s", error)
            return
        page = future.result()
        is_last = len(page) < PAGE_RECORDS
        self._page_end = NEVER if is_last else page[-1]._replace(offset=page[-1].offset + 1)
        self._known = list({*page, *self._recent} - self._taken)
        heapify(self._known)
        self.read_ahead()
        self._on_near()
