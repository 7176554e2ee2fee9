"""Very many queues are flushed in rounds, the largest first, and none waits for ever."""

import asyncio
from functools import partial
from pathlib import Path

import pytest
from unit.log_backend.log_records import records
from unit.log_backend.open_store import content, durable, flushed, start_store

from routelog.log_backend.log_store import LogOptions, LogStore
from routelog.log_backend.partitions.partition_log import PartitionLog
from routelog.log_backend.upkeep import checkpoints
from routelog.log_backend.upkeep import flush_round as rounds
from routelog.log_backend.upkeep.flush_round import flush_round

SIZES = (10, 5_000, 20, 90_000, 30, 40, 2_000, 50)


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A round is of four partitions."""
    monkeypatch.setattr(rounds, "PARTITIONS_MAX", 4)
    monkeypatch.setattr(checkpoints, "PARTITIONS_MAX", 4)


async def filled(data: Path) -> tuple[LogStore, list[PartitionLog]]:
    """A partition for each of SIZES, with a record of it in no segment."""
    queues = [f"q{number}" for number in range(len(SIZES))]
    options = LogOptions(flush_seconds=3600)
    store, partitions = start_store(data, queues=queues, options=options)
    for partition, size in zip(partitions, SIZES, strict=True):
        position = partition.append(records([bytes(size)]), waited=True)
    await durable(store, position)
    return store, partitions


async def test_the_largest_have_half_of_a_round_and_any_others_the_rest(data: Path) -> None:
    store, partitions = await filled(data)
    chosen = await flush_round(partitions)
    assert chosen == [partitions[at] for at in (3, 1, 0, 2)]
    assert await flush_round(partitions[:4]) == partitions[:4]
    await store.aclose()


async def test_so_many_bytes_are_enough_of_the_largest(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds, "BYTES_MAX", 80_000)
    store, partitions = await filled(data)
    chosen = await flush_round(partitions)
    assert chosen == [partitions[at] for at in (3, 0, 1, 2)]
    await store.aclose()


async def test_a_flush_has_as_many_rounds_as_it_takes_and_memory_is_free_behind_each(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, partitions = await filled(data)
    unflushed: list[list[int]] = []
    evict = store.checkpoints._evict

    async def watch() -> None:
        unflushed.append([at for at, each in enumerate(partitions) if each.unflushed_bytes])
        await evict()

    monkeypatch.setattr(store.checkpoints, "_evict", watch)
    await flushed(store)
    assert [len(each) for each in unflushed] == [4, 0]
    assert 3 not in unflushed[0]
    await store.aclose()
    queues = [f"q{number}" for number in range(len(SIZES))]
    assert await content(data, queues) == [(0, bytes(SIZES[0]))]


async def test_who_grows_during_a_flush_asks_for_one_more_only(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = LogOptions(flush_seconds=3600, memory_tail_bytes=1_000)
    store, (partition,) = start_store(data, options=options)
    flushes: list[object] = []
    flush = store.checkpoints.flush

    async def count() -> None:
        flushes.append(None)
        await flush()

    monkeypatch.setattr(store.checkpoints, "flush", count)
    async with store.checkpoints.lock:  # as of one that is under way
        for _ in range(50):
            partition.append(records([bytes(500)]))
            await asyncio.sleep(0)
        assert len(flushes) == 1
    await store.aclose()


async def test_a_flush_ends_though_a_transaction_keeps_all_of_them_back(data: Path) -> None:
    queues = [f"q{number}" for number in range(len(SIZES))]
    store, partitions = start_store(data, queues=queues, options=LogOptions(flush_seconds=3600))
    transaction = store.transaction()
    for partition in partitions:
        transaction.append(partial(partition.append, records([b"x"])))
    transaction.pause()
    async with asyncio.timeout(60):
        await store.checkpoints.flush()
    assert all(partition.unflushed_bytes for partition in partitions)
    transaction.end()
    while transaction.show_some():
        pass
    await durable(store, transaction.position)
    await flushed(store)
    assert not any(partition.unflushed_bytes for partition in partitions)
    await store.aclose()


async def test_a_checkpoint_writes_all_of_them_at_once(data: Path) -> None:
    store, partitions = await filled(data)
    await store.aclose()
    store, partitions = start_store(data, queues=[f"q{n}" for n in range(len(SIZES))], epoch=2)
    assert [each.segments[-1].written_end for each in partitions] == [1] * len(SIZES)
    await store.aclose()
