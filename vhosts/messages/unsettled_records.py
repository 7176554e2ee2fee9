"""The unsettled records of a partition, read in order after recovery."""

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass

from routelog.log_backend import Cursor, PartitionLog, RecordBatch

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Kept:
    """An unsettled record: its batch, and its index in the batch."""

    batch: RecordBatch
    index: int


async def unsettled_records(partition: PartitionLog, cursor: Cursor) -> AsyncIterator[Kept]:
    """The unsettled records, in order, up to the first damage."""
    settled = cursor.settled
    offset = settled.unsettled_from(partition.first_offset)
    while offset < partition.next_offset:
        batch = await _batch(partition, offset)
        if batch is None:
            if not partition.closed:
                log.error("%s: cannot be read from offset %d on", partition.directory, offset)
            return
        offset = max(offset, batch.base_offset)
        while (offset := settled.unsettled_from(offset)) < batch.end_offset:
            yield Kept(batch, offset - batch.base_offset)
            offset += 1


async def _batch(partition: PartitionLog, offset: int) -> RecordBatch | None:
    while (batch := partition.read(offset)) is None and partition.needs_load(offset):
        loaded = asyncio.Event()
        partition.load(offset, loaded.set)  # may end with records that somebody else asked for
        await loaded.wait()
    return batch
