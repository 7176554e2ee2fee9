"""Schedules in the metadata store: which record of a log is due when::

    key                                                                             value
    b"schedules/" schedule u64, due i64, part u8, offset u64                        none
    b"schedule-ends/" schedule u64, part u8                                         end u64

Integers are big-endian, so that the entries of a schedule are ordered by the time at which they are due (us
since 1970, never negative). A part is one of the schedule's partitions. Every record of a part below its end
was added; entries of settled records may be left over, and are ignored.

All of it tells only of what is committed, so that no other leader can give the offsets to other records.
"""

import asyncio
import logging
import struct
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import NamedTuple, TypeVar

from routelog.log_backend.metadata.metadata import Change, MetadataCorrupt, MetadataStore

CHANGES_MAX = 512  # of one batch, which holds the store's lock and the GIL for 1 ms

OF_THIS_RUN = (
    2**63
)  # added to the number of a schedule whose log gives its offsets again after a start

_ENTRIES = b"schedules/"
_ENDS = b"schedule-ends/"
_SCHEDULE = struct.Struct(">Q")
_ENTRY = struct.Struct(">qBQ")
_END_KEY = struct.Struct(">QB")
_END = struct.Struct(">Q")

_Result = TypeVar("_Result")

log = logging.getLogger(__name__)


class ScheduledRecord(NamedTuple):
    """A record and when it is due (us since 1970); part and offset say where it is."""

    due: int
    part: int
    offset: int


class ScheduleStore:
    """The schedules of a node; one thread reads and writes them in the order of the calls.

    Nothing is synced: after a crash, lost entries are made again from the logs. After the end, or a failure,
    nothing is written, and reads are cancelled.
    """

    def __init__(self, metadata: MetadataStore, loop: asyncio.AbstractEventLoop) -> None:
        self._metadata = metadata
        self._loop = loop
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="schedules")
        self._flushes: set[Callable[[], None]] = set()
        self._closed = False

    def ends(self, schedule: int) -> Mapping[int, int]:
        """The end of each part that has one. It blocks: only for the start."""
        prefix = _ENDS + _SCHEDULE.pack(schedule)
        return {key[-1]: _end(key, entry.value) for key, entry in self._metadata.scan(prefix)}

    def forget(self, schedule: int) -> None:
        """Delete a schedule durably. It blocks: only for the start."""
        self._delete(schedule)
        self._metadata.sync()

    def write(
        self,
        schedule: int,
        added: Sequence[ScheduledRecord],
        removed: Sequence[ScheduledRecord],
        ends: Mapping[int, int],
    ) -> None:
        """Add and remove records, then store the ends of parts."""
        changes = [Change(_key(schedule, each), b"") for each in added]
        changes += [Change(_key(schedule, each), None) for each in removed]
        changes += [_end_change(schedule, part, end) for part, end in ends.items()]
        self._run(partial(self._write, changes)).add_done_callback(self._report)

    def read(
        self, schedule: int, first: ScheduledRecord, count: int
    ) -> asyncio.Future[list[ScheduledRecord]]:
        """Read up to `count` records from one on; all earlier writes are seen."""
        return self._run(partial(self._read, schedule, first, count))

    def remove_below(
        self, schedule: int, ends: Sequence[int], kept: Collection[ScheduledRecord]
    ) -> None:
        """Remove all records below an offset of their part, but for some."""
        work = partial(self._remove_below, schedule, tuple(ends), frozenset(kept))
        self._run(work).add_done_callback(self._report)

    def delete(self, schedule: int) -> None:
        """Delete a schedule."""
        self._run(partial(self._delete, schedule)).add_done_callback(self._report)

    def keep_only(self, schedules: Collection[int]) -> None:
        """Delete all other schedules: their partitions are gone; at a start, also those of the last run."""
        self._run(partial(self._keep_only, frozenset(schedules))).add_done_callback(self._report)

    def opened(self, flush: Callable[[], None]) -> None:
        """Register a function that writes a schedule's gathered changes, for `aclose`."""
        self._flushes.add(flush)

    def closed(self, flush: Callable[[], None]) -> None:
        """Forget a function of `opened`."""
        self._flushes.discard(flush)

    async def aclose(self) -> None:
        """Write all gathered changes, and end the thread."""
        for flush in list(self._flushes):
            flush()
        self._closed = True
        await self._loop.run_in_executor(None, self._thread.shutdown)

    def _run(self, work: Callable[[], _Result]) -> asyncio.Future[_Result]:
        if self._closed:
            refused: asyncio.Future[_Result] = self._loop.create_future()
            refused.cancel()
            return refused
        return self._loop.run_in_executor(self._thread, work)

    def _report(self, future: "asyncio.Future[None]") -> None:
        if not future.cancelled() and (error := future.exception()) is not None:
            if not self._closed:
                log.error(
                    "schedules are not written any more; a restart makes up for it: %s", error
                )
            self._closed = True  # the store refuses everything from now on

    # -- in the thread

    def _write(self, changes: Sequence[Change]) -> None:
        for first in range(0, len(changes), CHANGES_MAX):
            self._metadata.apply(changes[first : first + CHANGES_MAX], synced=False)

    def _read(self, schedule: int, first: ScheduledRecord, count: int) -> list[ScheduledRecord]:
        return list(islice(self._from(schedule, first), count))

    def _from(self, schedule: int, first: ScheduledRecord) -> Iterator[ScheduledRecord]:
        prefix = _ENTRIES + _SCHEDULE.pack(schedule)
        for key, _ in self._metadata.scan(prefix, _key(schedule, first)):
            yield ScheduledRecord(*_ENTRY.unpack_from(key, len(prefix)))

    def _remove_below(
        self, schedule: int, ends: Sequence[int], kept: Collection[ScheduledRecord]
    ) -> None:
        found = self._from(schedule, ScheduledRecord(0, 0, 0))
        gone = (each for each in found if each.offset < ends[each.part] and each not in kept)
        while some := [Change(_key(schedule, each), None) for each in islice(gone, CHANGES_MAX)]:
            self._metadata.apply(some, synced=False)

    def _delete(self, schedule: int) -> None:
        for prefix in (_ENDS, _ENTRIES):  # entries without an end are made again
            self._metadata.delete_range(
                prefix + _SCHEDULE.pack(schedule), prefix + _SCHEDULE.pack(schedule + 1)
            )

    def _keep_only(self, schedules: frozenset[int]) -> None:
        for prefix in (_ENTRIES, _ENDS):
            for schedule in self._numbers(prefix):
                if schedule not in schedules:
                    self._delete(schedule)

    def _numbers(self, prefix: bytes) -> Iterator[int]:
        start = prefix
        while found := next(self._metadata.scan(prefix, start), None):
            schedule: int = _SCHEDULE.unpack_from(found[0], len(prefix))[0]
            yield schedule
            start = prefix + _SCHEDULE.pack(schedule + 1)


def _key(schedule: int, entry: ScheduledRecord) -> bytes:
    return _ENTRIES + _SCHEDULE.pack(schedule) + _ENTRY.pack(*entry)


def _end_change(schedule: int, part: int, end: int) -> Change:
    return Change(_ENDS + _END_KEY.pack(schedule, part), _END.pack(end))


def _end(key: bytes, value: bytes) -> int:
    if len(value) != _END.size:
        raise MetadataCorrupt(f"the entry {key!r} is no end of a schedule")
    end: int = _END.unpack(value)[0]
    return end
