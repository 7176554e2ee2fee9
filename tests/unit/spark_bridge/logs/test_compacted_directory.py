"""A data directory whose log is compacted while it is read."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from pathlib import Path

from unit.log_backend.compacted_log import (
    AT_ONCE,
    Stored,
    UnsyncedDisk,
    folded,
    passed,
    publish,
    read_from,
    start_compacted,
)
from unit.log_backend.open_store import flushed

from routelog.log_backend import RecordBatch
from routelog.spark_bridge.columns.row_group import row_groups
from routelog.spark_bridge.logs.log_directory import LogDirectory
from routelog.spark_bridge.logs.readable_logs import LogPartition, OffsetRange

PARTITION = LogPartition("/", "q", 0)


def rows(wanted: OffsetRange, batches: Iterable[RecordBatch]) -> list[Stored]:
    """What Spark gets of a range."""
    found = []
    for group in row_groups(wanted, batches):
        for each in group.slices:
            content, base = each.batch.records, each.batch.base_offset
            for at in range(each.first, each.stop):
                found.append(Stored(base + at, content.routing_key(at), content.body(at)))
    return found


async def test_ranges_are_read_across_passes(tmp_path: Path) -> None:
    choice = random.Random(8)
    store, partition = start_compacted(tmp_path / "data", UnsyncedDisk(), retention=AT_ONCE)
    stored: list[Stored] = []

    def publish_some() -> None:
        for _ in range(12):
            pairs = [(f"key {choice.randrange(9)}", choice.randbytes(300)) for _ in range(3)]
            stored.extend(publish(partition, *pairs))

    publish_some()
    await passed(store)
    logs = LogDirectory(tmp_path / "data")
    for _ in range(8):
        publish_some()
        await flushed(store)
        end = partition.segments[-1].written_end
        whole = OffsetRange(PARTITION, 0, end, 0)
        assert logs.extents(PARTITION)[-1].end == end
        batches = logs.read(whole)
        early = [next(batches) for _ in range(choice.randint(0, 6))]
        await passed(store)
        found = rows(whole, [*early, *batches])
        offsets = [each.offset for each in found]
        assert offsets == sorted(set(offsets))
        assert folded(found) == folded(stored[:end])
        left = [each for each in await read_from(partition, 0) if each.offset < end]
        assert rows(whole, logs.read(whole)) == left
        for _ in range(5):
            start = choice.randrange(end)
            some = OffsetRange(PARTITION, start, choice.randint(start + 1, end), 0)
            got = rows(some, logs.read(some))
            assert got == [each for each in left if some.start <= each.offset < some.end]
        assert logs.offset_at(PARTITION, 0) == left[0].offset
    assert store.compactor.passes > 2
    await asyncio.sleep(0)
    await store.aclose()
