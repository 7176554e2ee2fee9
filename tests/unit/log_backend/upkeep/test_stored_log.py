"""Partner of log_backend/upkeep/stored_log.py."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from unit.log_backend.log_records import records
from unit.log_backend.open_store import flushed, start_store
from unit.log_backend.watched_disk import WatchedDisk

from routelog.log_backend.upkeep.stored_log import StoredLogs

LARGE, SMALL = [b"x" * 1_000] * 10, [b"x" * 100] * 2
BATCHES = [(0, 10, 10_000), (10, 12, 200), (12, 22, 10_000)]


@pytest.mark.parametrize(
    ("start", "bytes_max", "listed"),
    [(0, 3_000, 2), (0, 10_100, 3), (9, 3_000, 3), (9, 100, 3), (10, 100, 3), (13, 100, 1)],
)
async def test_sizes_are_listed_until_bodies_from_the_start_on_do_not_fit(
    data: Path, disk: WatchedDisk, start: int, bytes_max: int, listed: int
) -> None:
    store, (partition,) = start_store(data, disk=disk)
    for bodies in (LARGE, SMALL, LARGE):
        partition.append(records(bodies), waited=True)
        await flushed(store)  # small batches that are flushed together become one
    logs = StoredLogs(disk, asyncio.get_running_loop())
    behind = [each for each in BATCHES if each[1] > start]
    assert await logs.body_sizes(partition, start, 22, bytes_max) == behind[:listed]
    logs.close()
    await store.aclose()
