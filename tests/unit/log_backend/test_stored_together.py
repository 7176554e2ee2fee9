"""Changes of several partitions that survive a crash together, or not at all."""

from itertools import chain
from pathlib import Path

import pytest
from support.waiting import until
from unit.log_backend.log_records import records
from unit.log_backend.open_store import append, content, durable, start_store

from routelog.log_backend.journal.journal_groups import COMMIT_BYTES_MAX
from routelog.log_backend.log_store import LogOptions
from routelog.log_backend.partitions.partition_log import PartitionLog
from routelog.log_backend.records.durability import Durability
from routelog.log_backend.records.record_batch import Records

LEVELS = [[Durability.DISK, Durability.OS], [Durability.OS, Durability.OS]]


def planned(partition: PartitionLog) -> list[int]:
    writes = list(chain.from_iterable(partition.plan_flush()))
    partition.flush_refused(writes)
    return [batch.base_offset for write in writes for batch in write.batches]


@pytest.mark.parametrize("levels", LEVELS)
async def test_nothing_of_it_is_in_a_segment_before_the_journal_has_all_of_it(
    data: Path, levels: list[Durability]
) -> None:
    store, (one, other) = start_store(data, queues=("one", "other"), durabilities=levels)
    before = append(one)
    await until(lambda: store.journal.written >= before)
    with store.together():
        position = append(one, 2)
        append(other)
    append(one)
    # In the same turn: the journal has nothing of it yet.
    assert planned(one) == [0], "what stands before it may be written"
    assert planned(other) == []
    await until(lambda: store.journal.written >= position)
    await store.checkpoints.flush()
    assert one.segments[-1].end_offset == 4
    assert other.segments[-1].end_offset == 1
    await store.aclose()
    assert [number for number, _ in await content(data, queues=("one", "other"))] == [0, 1, 2, 3]


async def test_it_is_one_block_however_large(data: Path) -> None:
    options = LogOptions(journal_file_bytes=8 * COMMIT_BYTES_MAX, flush_seconds=3600)
    store, (one, other) = start_store(data, queues=("one", "other"), options=options)
    body = bytes(COMMIT_BYTES_MAX // 2)
    with store.together():
        positions = {one.append(big(body)) for _ in range(3)}
        with store.together():
            positions |= {other.append(big(body)) for _ in range(3)}
    assert len(positions) == 1
    assert one.append(big(body)) > max(positions)
    await durable(store, max(positions))
    assert planned(other) == [0, 1, 2]
    await store.aclose()


def big(body: bytes) -> Records:
    return records([body])
