"""Reading the unsettled records of a partition while others read it."""

from pathlib import Path

from unit.log_backend.log_records import records
from unit.log_backend.open_store import MIB, SMALL, flushed, start_store

from routelog.vhosts.messages.unsettled_records import unsettled_records


async def test_it_goes_on_behind_a_read_of_other_records(tmp_path: Path) -> None:
    store, (partition,) = start_store(tmp_path, options=SMALL)
    for _ in range(3):
        partition.append(records([bytes(60_000)]))  # each fills a segment
        await flushed(store)
    partition.evict(MIB)
    found = unsettled_records(partition, partition.open_cursor())
    offsets = [(await anext(found)).batch.base_offset]
    partition.load(0, lambda: None)
    offsets += [each.batch.base_offset async for each in found]
    assert offsets == [0, 1, 2]
    await store.aclose()
