"""Single records read from a segment, wherever they lie in it."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from unit.log_backend.log_records import records
from unit.log_backend.open_store import MIB, flushed, start_store

from routelog.log_backend import StoredRecord
from routelog.log_backend.log_store import LogOptions, LogStore
from routelog.log_backend.partitions.partition_log import PartitionLog
from routelog.log_backend.segments.segment_file import SegmentDamaged

OPTIONS = LogOptions(journal_file_bytes=MIB, flush_seconds=3600)


async def stored(data: Path, batches: int, size: int = 1) -> tuple[LogStore, PartitionLog]:
    """A partition of batches of five records, on the disk; a body begins with the record's offset."""
    store, (partition,) = start_store(data, options=OPTIONS)
    for first in range(0, 5 * batches, 5):
        bodies = [(b"%d " % offset).ljust(size, b".") for offset in range(first, first + 5)]
        partition.append(records(bodies))
    await flushed(store)
    return store, partition


async def fetch(
    store: LogStore, partition: PartitionLog, offsets: list[int], bytes_max: int = MIB
) -> Mapping[int, StoredRecord]:
    segment = partition.segment_of(offsets[0])
    assert segment is not None
    return await store.reads.fetch(segment, offsets, bytes_max)


def numbers(found: Mapping[int, StoredRecord]) -> list[tuple[int, int]]:
    return [(offset, int(record.body.split()[0])) for offset, record in found.items()]


async def test_records_come_by_their_offsets_from_all_over_a_segment(data: Path) -> None:
    store, partition = await stored(data, 200, 400)
    wanted = [0, 1, 4, 5, 333, 334, 998, 999]
    found = await fetch(store, partition, wanted)
    assert numbers(found) == [(offset, offset) for offset in wanted]
    batch = partition.read(333)
    assert batch is not None
    index = 333 - batch.base_offset
    assert found[333].routing_key == batch.records.routing_key(index)
    assert found[333].properties == batch.records.properties(index)
    assert found[333].exchange == batch.records.exchange
    assert found[333].time == batch.records.last_time
    await store.aclose()


async def test_no_more_is_read_than_asked_for_but_one_record(data: Path) -> None:
    store, partition = await stored(data, 10, 1_000)
    assert len(await fetch(store, partition, [3, 7, 11, 12], 2_500)) == 2
    assert len(await fetch(store, partition, [3, 7], 10)) == 1
    await store.aclose()


async def test_what_is_not_there_is_left_out(data: Path) -> None:
    store, partition = await stored(data, 2)
    partition.skip_to(100)
    partition.append(records([b"100"]))
    await flushed(store)
    assert numbers(await fetch(store, partition, [9, 50, 100, 101])) == [(9, 9), (100, 100)]
    await store.aclose()


async def test_damage_on_the_way_is_told(data: Path) -> None:
    store, partition = await stored(data, 10, 20_000)
    (path,) = partition.directory.glob("*.log")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    assert numbers(await fetch(store, partition, [0])) == [(0, 0)]
    with pytest.raises(SegmentDamaged):
        await fetch(store, partition, list(range(50)))
    await store.aclose()
