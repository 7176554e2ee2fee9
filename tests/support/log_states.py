"""What the logs of a store hold, to be compared with those of another node."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from support.waiting import WAIT_SECONDS

from routelog.log_backend import LogStore, PartitionLog, crc32c
from routelog.log_backend.partitions.cursor import Cursor


@dataclass(frozen=True)
class CursorState:
    """What has become of the messages of one reader."""

    unsettled: list[int]
    counts: list[int]
    handed_out: int

    @classmethod
    def of(cls, cursor: Cursor, end: int) -> CursorState:
        """The state below an offset."""
        unsettled = []
        offset = cursor.settled.unsettled_from(cursor.low_water)
        while offset < end:
            unsettled.append(offset)
            offset = cursor.settled.unsettled_from(offset + 1)
        counts = [cursor.delivery_counts[each] for each in unsettled]
        return cls(unsettled, counts, max(cursor.handed_out, cursor.low_water))


@dataclass(frozen=True)
class LogState:
    """What a log holds: its end, its cursors, and checksums of records by offset."""

    next_offset: int
    cursors: dict[int, CursorState]
    records: dict[int, int]

    @classmethod
    async def of(cls, log: PartitionLog) -> LogState:
        """The state of a log at which nothing happens meanwhile."""
        end = log.next_offset
        cursors = {number: CursorState.of(each, end) for number, each in log.cursors.items()}
        needed = {offset for each in cursors.values() for offset in each.unsettled}
        found: dict[int, int] = {}
        for offset in sorted(needed):
            batch = log.read(offset)
            if batch is None:
                assert log.needs_load(offset), f"{offset} of {log.directory} is nowhere"
                loaded = asyncio.Event()
                log.load(offset, loaded.set)
                async with asyncio.timeout(WAIT_SECONDS):
                    await loaded.wait()
                batch = log.read(offset)
            assert batch is not None
            assert batch.base_offset <= offset, f"{offset} of {log.directory} is gone"
            found[offset] = crc32c(batch.records.body(offset - batch.base_offset))
        return cls(end, cursors, found)


async def states_of(store: LogStore, *, with_streams: bool = True) -> dict[int, LogState]:
    """The state of each durable partition of a store."""
    every = [log for log in store.partitions.values() if log.durable]
    logs = [log for log in every if with_streams or not log.is_stream]
    return {log.number: await LogState.of(log) for log in logs}
