"""Transactions in the log: one block, and nothing of it elsewhere before it is durable."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import chain
from pathlib import Path

import pytest
from support.waiting import until
from unit.log_backend.log_records import records
from unit.log_backend.open_store import append, start_store, unsettled
from unit.passing_time import pass_time

from routelog.log_backend import (
    Durability,
    LogStore,
    LogTransaction,
    PartitionLog,
    SettledEntries,
    SettledPart,
    Settlement,
)
from routelog.log_backend.journal import journal_groups


async def durable(store: LogStore, position: int) -> None:
    reached = asyncio.Event()
    store.progress.receipt(0, position).when_covered(reached.set)
    async with asyncio.timeout(60):
        await reached.wait()


def committed(store: LogStore, append: Callable[[], object], *settled: SettledEntries) -> int:
    """The position of a transaction of one turn."""
    transaction = store.transaction()
    transaction.append(append, settled)
    end(transaction)
    return transaction.position


def end(transaction: LogTransaction) -> None:
    transaction.end()
    while transaction.show_some():
        pass


def appending(*partitions: PartitionLog, count: int = 1, size: int = 10) -> Callable[[], None]:
    """A function that appends so many records to each partition."""

    def append() -> None:
        for partition in partitions:
            for _ in range(count):
                partition.append(records([bytes(size)], persistent=True), waited=True)

    return append


async def test_a_transaction_is_one_block_however_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, (a, b) = start_store(tmp_path, queues=("a", "b"))
    first = a.append(records([b"alone"], persistent=True))
    whole = journal_groups.COMMIT_BYTES_MAX // 2_000
    position = committed(store, appending(a, b, count=whole, size=2_000))
    assert position == first
    assert store.journal.groups.first.bytes > 2 * whole * 2_000
    assert b.append(records([b"behind"], persistent=True)) == position + 1
    await durable(store, position + 1)
    await store.aclose()


async def test_a_transaction_is_synced_whatever_its_queues_ask_for(tmp_path: Path) -> None:
    levels = (Durability.OS, Durability.OS)
    store, (a, b) = start_store(tmp_path, queues=("a", "b"), durabilities=levels)
    await durable(store, committed(store, appending(a, b)))
    await store.aclose()


async def test_what_is_not_for_the_journal_has_no_position(tmp_path: Path) -> None:
    store, (a,) = start_store(tmp_path)
    transient = records([b"x"], persistent=False)
    assert committed(store, lambda: a.append(transient, waited=True)) == 0
    await store.aclose()


async def test_no_segment_has_a_record_of_it_before_it_is_durable(tmp_path: Path) -> None:
    store, (a, b) = start_store(tmp_path, queues=("a", "b"))
    await durable(store, a.append(records([b"before"], persistent=True), waited=True))
    position = committed(store, appending(a, b))
    a.append(records([b"behind"], persistent=True))
    plans = [
        list(chain(*each.plan_flush())) for each in (a, b)
    ]  # in the same turn: nothing is written so far
    assert [[each.base_offset for each in w.batches] for plan in plans for w in plan] == [[0]]
    assert a.unflushed_bytes
    assert b.unflushed_bytes
    a.flush_refused(plans[0])
    await durable(store, position)
    await store.checkpoints.flush()
    assert (a.unflushed_bytes, b.unflushed_bytes) == (0, 0)
    assert (a.segments[-1].written_end, b.segments[-1].written_end) == (3, 1)
    await store.aclose()


async def test_one_of_several_turns_is_a_block_with_what_others_append_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_groups, "COMMIT_BYTES_MAX", 1_000)
    store, (a, b) = start_store(tmp_path, queues=("a", "b"))
    await durable(store, b.append(records([b"before"], persistent=True)))
    transaction = store.transaction()
    for part in (a, b):
        transaction.append(appending(part, count=3_000, size=2_000))
        transaction.pause()
        other = a.append(records([b"between"], persistent=True), waited=True)
        assert other == transaction.position
        await pass_time(60)
        # What it had begun would be written by now.
        await until(lambda: not store.journal._committing)
        await store.checkpoints.flush()
        assert not a.segments
        assert store.journal.written == other - 1
    end(transaction)
    assert a.append(records([b"behind"], persistent=True), waited=True) == other + 1
    await durable(store, other + 1)
    await store.checkpoints.flush()
    assert (a.segments[-1].written_end, b.segments[-1].written_end) == (3_003, 3_001)
    await store.aclose()


async def test_no_two_can_keep_the_block_open(tmp_path: Path) -> None:
    store, (a, b) = start_store(tmp_path, queues=("a", "b"))
    first, second = store.transaction(), store.transaction()
    first.append(appending(a))
    first.pause()
    second.append(appending(b))
    assert store.journal.is_held
    with pytest.raises(RuntimeError):
        second.pause()
    end(first)
    assert not store.journal.is_held
    second.append(appending(b))
    second.pause()  # a block of its own
    assert second.position == first.position + 1
    await until(lambda: store.journal.durable >= first.position)
    assert store.journal.is_held
    end(second)
    await durable(store, second.position)
    await store.aclose()


class MadeToFail(Exception):
    """A fault of ours."""


def failing(append: Callable[[], object]) -> Callable[[], None]:
    """A function that appends, and then fails."""

    def fail() -> None:
        append()
        raise MadeToFail

    return fail


@pytest.mark.parametrize("step", range(3))
@pytest.mark.parametrize("level", Durability)
async def test_an_error_in_any_step_takes_back_all_of_them(
    tmp_path: Path, step: int, level: Durability
) -> None:
    store, (a, b) = start_store(tmp_path, queues=("a", "b"), durabilities=[level] * 2)
    append(a, 4)
    before = append(a)
    await store.checkpoints.flush()
    transaction = store.transaction()
    entries = SettledEntries([SettledPart(a.number, Settlement(0, [(0, 2)]))])
    for turn in range(step):
        transaction.append(appending(a, b), [entries] if not turn else ())
        transaction.pause()
        append(a)
        await store.checkpoints.flush()
        await pass_time(60)
        # What it had begun would be written by now.
        await until(lambda: not store.journal._committing)
        assert (a.ready_end, b.ready_end) == (5, 0)
        assert a.read(5) is None
    with pytest.raises(MadeToFail):
        transaction.append(failing(appending(a, b)), () if step else [entries])
    assert (store.journal.is_held, store.intake.is_committing, transaction.position) == (
        False,
    ) * 2 + (0,)
    own = [4 + 2 * turn for turn in range(1, step + 1)]
    assert [offset for offset, _ in await unsettled(a)] == [0, 1, 2, 3, 4, *own]
    assert await unsettled(b) == []
    assert (a.ready_end, b.ready_end) == (6 + 2 * step, 1 + step)
    behind = append(a)
    assert behind >= before
    await store.checkpoints.flush()
    await store.aclose()
    store, (a, b) = start_store(tmp_path, queues=("a", "b"), epoch=2)
    assert [offset for offset, _ in await unsettled(a)] == [0, 1, 2, 3, 4, *own, 6 + 2 * step]
    assert await unsettled(b) == []
    await store.aclose()


async def test_one_of_one_turn_leaves_alone_what_another_has_open(tmp_path: Path) -> None:
    store, (a, b) = start_store(tmp_path, queues=("a", "b"))
    slow = store.transaction()
    slow.append(appending(a))
    slow.pause()
    committed(store, appending(a, b))
    with pytest.raises(MadeToFail):
        store.transaction().append(failing(appending(a, b)))
    assert (a.ready_end, b.ready_end, a.next_offset, b.next_offset) == (0, 2, 3, 2)
    assert store.intake.is_committing
    slow.append(appending(b))
    slow.take_back()
    assert [offset for offset, _ in await unsettled(a)] == [1]
    assert [offset for offset, _ in await unsettled(b)] == [0]
    await store.aclose()


async def test_what_cannot_be_taken_back_is_never_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, (a,) = start_store(tmp_path)
    append(a)
    await durable(store, append(a))
    monkeypatch.setattr(PartitionLog, "take_back", lambda *_: failing(list)())
    with pytest.raises(MadeToFail):
        store.transaction().append(failing(appending(a)))
    assert store.journal.failure is not None
    await store.aclose()
    store, (a,) = start_store(tmp_path, epoch=2)
    assert [offset for offset, _ in await unsettled(a)] == [0, 1]
    await store.aclose()


async def test_one_that_has_nothing_for_the_journal_leaves_no_block_behind(tmp_path: Path) -> None:
    store, (a,) = start_store(tmp_path)
    transaction = store.transaction()
    transaction.append(lambda: a.append(records([b"x"], persistent=False), waited=True))
    transaction.pause()
    end(transaction)
    assert transaction.position == 0
    assert store.journal.groups.first is store.journal.groups.last
    await store.aclose()


async def test_a_transaction_within_another_shares_its_fate(tmp_path: Path) -> None:
    store, (a,) = start_store(tmp_path)
    with store.together():
        a.append(records([b"outside"], persistent=True))
        with store.together():
            a.append(records([b"inside"], persistent=True))
    assert not any(a.plan_flush())
    await durable(store, store.journal.groups.last.position)
    await store.checkpoints.flush()
    assert a.segments[-1].written_end == 2
    await store.aclose()


async def test_what_it_settles_is_journaled_and_settled_by_its_owner(tmp_path: Path) -> None:
    store, (a, b) = start_store(tmp_path, queues=("a", "b"))
    for _ in range(4):
        a.append(records([b"x"], persistent=True))
    parts = [SettledPart(a.number, Settlement(0, [each])) for each in ((1, 2), (2, 3))]
    position = committed(store, appending(b), SettledEntries(parts), SettledEntries())
    assert store.journal.groups.first.count == 4 + 1 + 2
    await durable(store, position)
    assert [offset for offset, _ in await unsettled(a)] == [0, 1, 2, 3]
    await store.aclose()
    store, (a, b) = start_store(tmp_path, queues=("a", "b"), epoch=2)
    assert [offset for offset, _ in await unsettled(a)] == [0, 3]
    assert [offset for offset, _ in await unsettled(b)] == [0]
    await store.aclose()
