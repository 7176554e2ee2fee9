"""A publish to many queues, whose records stand in the journal once: recovered in all queues, or in none."""

from __future__ import annotations

from pathlib import Path

import pytest
from unit.log_backend.log_records import records
from unit.log_backend.open_store import append, crash, durable, numbered, start_store, unsettled

from routelog.log_backend import PartitionLog
from routelog.log_backend.journal.journal_block import BLOCK_ALIGNMENT, Block
from routelog.log_backend.journal.journal_reader import JournalDamaged, JournalReader

QUEUES = tuple(f"q{number}" for number in range(100))
BODY = b"x" * (4 * BLOCK_ALIGNMENT)
BLOCK_BYTES_MAX = len(BODY) + 5_000
BLOCK_PAGES = -(-BLOCK_BYTES_MAX // BLOCK_ALIGNMENT)


def payloads(partitions: list[PartitionLog]) -> set[int]:
    """The memory that their first batches have their columns in."""
    found = [partition.read(0) for partition in partitions]
    return {id(batch.records.payload) for batch in found if batch is not None}


async def left_by_kill(data: Path, *, vouched: bool = False) -> tuple[Path, list[Block]]:
    """A message in the first queue, then one in all, then perhaps another; and the blocks of the journal."""
    store, partitions = start_store(data, queues=QUEUES)
    await durable(store, append(partitions[0]))
    content = records([BODY])
    for each in partitions:
        position = each.append(content, waited=True)
    await durable(store, position)
    if vouched:
        await durable(store, append(partitions[0]))
    blocks = list(JournalReader(store.journal.supply.files).blocks())
    left = await crash(store, data)
    await store.aclose()
    return left, blocks


async def test_records_of_a_hundred_queues_are_written_once_and_kept_once(data: Path) -> None:
    left, (_, block, *_) = await left_by_kill(data)
    assert len(BODY) < block.length < BLOCK_BYTES_MAX
    assert len(block.entries) == len(QUEUES)
    store, partitions = start_store(left, queues=QUEUES, epoch=2)
    assert await unsettled(partitions[0]) == [*numbered(0), (1, BODY)]
    for each in partitions[1:]:
        assert await unsettled(each) == [(0, BODY)]
    assert len(payloads(partitions[1:])) == 1
    await store.aclose()


@pytest.mark.parametrize("lost", range(BLOCK_PAGES))
async def test_a_torn_block_is_in_no_queue(data: Path, lost: int) -> None:
    left, _ = await left_by_kill(data)
    lose_page(left, lost)
    store, partitions = start_store(left, queues=QUEUES, epoch=2)
    assert await unsettled(partitions[0]) == numbered(0)
    for each in partitions[1:]:
        assert await unsettled(each) == []
    await store.aclose()


async def test_a_block_that_is_torn_and_vouched_for_is_damage(data: Path) -> None:
    left, _ = await left_by_kill(data, vouched=True)
    lose_page(left, 1)
    with pytest.raises(JournalDamaged, match="commit 2 is missing"):
        start_store(left, queues=QUEUES, epoch=2)


def lose_page(data: Path, page: int) -> None:
    """Of the block with the fan-out, a page has zeros."""
    (path,) = [each for each in (data / "journal").glob("*.journal") if any(each.read_bytes()[:8])]
    content = bytearray(path.read_bytes())
    at = content.index(BODY) // BLOCK_ALIGNMENT * BLOCK_ALIGNMENT + page * BLOCK_ALIGNMENT
    content[at : at + BLOCK_ALIGNMENT] = bytes(BLOCK_ALIGNMENT)
    path.write_bytes(content)
