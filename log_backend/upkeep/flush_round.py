"""Chooses the partitions of one flush: a part, if there are very many, so that others need not wait for all."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager

from routelog.log_backend.loop.scheduler import Lane, in_turns
from routelog.log_backend.metadata.metadata import MetadataUnavailable
from routelog.log_backend.partitions.partition_log import PartitionLog
from routelog.log_backend.upkeep.eviction import largest_first

log = logging.getLogger(__name__)

PARTITIONS_MAX = 1_024  # each may need a new directory and a new file: 0.3 to 0.5 ms
BYTES_MAX = 64 * 1024 * 1024  # of the partitions chosen for their size; at least one is chosen


async def due(unflushed: Collection[PartitionLog], *, transient: bool) -> list[PartitionLog]:
    """Select the partitions that must be written.

    Args:
        transient: also those that are not durable, because memory is short.
    """
    every = in_turns(list(unflushed), Lane.UPKEEP)
    return [each async for each in every if each.durable or transient]


async def flush_round(due: Collection[PartitionLog]) -> list[PartitionLog]:
    """Choose partitions: half of them the largest, to free their memory, and half of them any."""
    if len(due) <= PARTITIONS_MAX:
        return list(due)
    chosen: dict[PartitionLog, None] = {}
    left = BYTES_MAX
    for partition in await largest_first(due, lambda log: log.unflushed_bytes):
        chosen[partition] = None
        left -= partition.unflushed_bytes
        if left <= 0 or len(chosen) == PARTITIONS_MAX // 2:
            break
    for partition in due:
        if len(chosen) == PARTITIONS_MAX:
            break
        chosen[partition] = None
    return list(chosen)


@asynccontextmanager
async def flushing(lock: asyncio.Lock, failed: Callable[[Exception], None]) -> AsyncIterator[None]:
    """Run one flush at a time.

    Args:
        failed: called with an error; it stops the node, because planned batches may not be on the disk, and
            full journal files must not wait for ever.
    """
    async with lock:
        try:
            yield
        except (OSError, MetadataUnavailable) as error:
            failed(error)
        except Exception as error:
            log.error("an error of the broker, while it wrote segments", exc_info=error)
            failed(error)
