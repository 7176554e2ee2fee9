import asyncio
import gc
import logging
import threading
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path

import pytest

from routelog.log_backend.metadata.metadata import (
    Change,
    Entry,
    MetadataStore,
    MetadataUnavailable,
    RevisionConflict,
)
from routelog.log_backend.metadata.metadata_writer import RESOLVED_MAX, MetadataWriter, unawaited

DEADLINE_SECONDS = 60.0


class GatedStore(MetadataStore):
    """A store whose syncs wait for a gate, are counted, and can fail."""

    gate: threading.Event
    reached: threading.Event
    syncs: int
    fails: bool

    def sync(self) -> None:
        self.reached.set()
        assert self.gate.wait(DEADLINE_SECONDS)
        self.syncs += 1
        if self.fails:
            raise self._failed("sync", OSError("Input/output error"))
        super().sync()


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[GatedStore]:
    store = GatedStore.open(tmp_path / "metadata")
    assert isinstance(store, GatedStore)
    store.gate = threading.Event()
    store.gate.set()
    store.reached = threading.Event()
    store.syncs = 0
    store.fails = False
    yield store
    store.close()


@pytest.fixture
async def writer(store: GatedStore) -> AsyncIterator[MetadataWriter]:
    writer = MetadataWriter(store, asyncio.get_running_loop())
    yield writer
    store.gate.set()
    await writer.aclose()


async def until_syncing(store: GatedStore) -> None:
    assert await asyncio.to_thread(store.reached.wait, DEADLINE_SECONDS)


async def test_a_submission_is_durable_when_its_future_resolves(
    store: GatedStore, writer: MetadataWriter
) -> None:
    store.gate.clear()
    durable = writer.submit([Change(b"a", b"1")])
    await until_syncing(store)
    assert not durable.done()
    store.gate.set()
    assert await durable == 1
    assert store.get(b"a") == Entry(b"1", 1)
    assert store.syncs == 1


async def test_what_gathers_during_a_sync_shares_the_next_one(
    store: GatedStore, writer: MetadataWriter
) -> None:
    store.gate.clear()
    first = writer.submit([Change(b"first", b"")])
    await until_syncing(store)
    others = [writer.submit([Change(b"k%d" % number, b"")]) for number in range(100)]
    assert writer.pending_changes == 101
    store.gate.set()
    assert await first == 1
    assert await asyncio.gather(*others) == list(range(2, 102))
    assert store.syncs == 2
    assert writer.pending_changes == 0


async def test_a_large_group_is_resolved_in_several_turns_of_the_loop(
    store: GatedStore, writer: MetadataWriter
) -> None:
    store.gate.clear()
    first = writer.submit([Change(b"first", b"")])
    await until_syncing(store)
    others = [writer.submit([Change(b"k%d" % number, b"")]) for number in range(100)]
    store.gate.set()
    await first
    resolved = [0]
    while resolved[-1] < len(others):
        await asyncio.sleep(0)
        resolved.append(sum(each.done() for each in others))
    assert max(after - before for before, after in pairwise(resolved)) == RESOLVED_MAX
    assert [await each for each in others] == list(range(2, 102))


async def test_what_is_not_resolved_yet_is_when_the_writer_closes(
    store: GatedStore, writer: MetadataWriter
) -> None:
    changes = [writer.submit([Change(b"k%d" % number, b"")]) for number in range(200)]
    await writer.aclose()
    assert all(each.done() for each in changes)
    assert writer.pending_changes == 0


async def test_a_conflict_is_one_submissions_own_and_sees_the_ones_before_it(
    store: GatedStore, writer: MetadataWriter
) -> None:
    created = writer.submit([Change(b"a", b"1", expected_revision=0)])
    refused = writer.submit([Change(b"a", b"2", expected_revision=0), Change(b"b", b"")])
    followed = writer.submit([Change(b"a", b"3", expected_revision=1)])
    assert await created == 1
    with pytest.raises(RevisionConflict) as conflict:
        await refused
    assert conflict.value.key == b"a"
    assert await followed == 2
    assert store.get(b"a") == Entry(b"3", 2)
    assert store.get(b"b") is None


async def test_a_submission_that_is_no_use_does_not_end_the_writer(
    store: GatedStore, writer: MetadataWriter
) -> None:
    bad = writer.submit([Change(b"", b"1")])
    good = writer.submit([Change(b"a", b"1")])
    with pytest.raises(ValueError, match="belongs to the store"):
        await bad
    assert await good == 1


async def test_changes_are_those_at_the_time_of_submission(
    store: GatedStore, writer: MetadataWriter
) -> None:
    changes = [Change(b"a", b"1")]
    durable = writer.submit(changes)
    changes.clear()
    await durable
    assert store.get(b"a") is not None


async def test_a_cancelled_waiter_disturbs_nobody(
    store: GatedStore, writer: MetadataWriter
) -> None:
    store.gate.clear()
    cancelled = writer.submit([Change(b"a", b"1")])
    kept = writer.submit([Change(b"b", b"1")])
    cancelled.cancel()
    store.gate.set()
    await asyncio.wait_for(kept, DEADLINE_SECONDS)
    assert store.get(b"a") is not None
    assert writer.pending_changes == 0


async def test_a_failed_sync_fails_its_whole_group_and_all_later_submissions(
    store: GatedStore, writer: MetadataWriter
) -> None:
    await writer.submit([Change(b"before", b"")])
    store.gate.clear()
    group = [
        writer.submit([Change(b"a", b"1")]),
        writer.submit([Change(b"a", b"2", expected_revision=0)]),  # no RevisionConflict
    ]
    store.fails = True
    store.gate.set()
    outcomes = await asyncio.gather(*group, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [MetadataUnavailable] * 2
    store.fails = False
    syncs = store.syncs
    with pytest.raises(MetadataUnavailable, match="sync of the metadata failed"):
        writer.submit([Change(b"later", b"")])
    assert store.syncs == syncs
    assert store.get(b"later") is None


async def test_a_failure_that_nobody_waits_for_is_told_once_by_the_writer(
    store: GatedStore, writer: MetadataWriter, caplog: pytest.LogCaptureFixture
) -> None:
    store.gate.clear()
    writer.submit([Change(b"a", b"1")])
    await until_syncing(store)
    writer.submit([Change(b"b", b"1")])
    store.fails = True
    store.gate.set()
    while writer.pending_changes:  # noqa: ASYNC110
        await asyncio.sleep(0)
    gc.collect()
    told = [line.getMessage() for line in caplog.records if line.levelno >= logging.ERROR]
    assert len(told) == 1
    assert "changes of topology are refused until a restart" in told[0]


async def test_a_fault_of_ours_that_nobody_waits_for_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    failed = asyncio.get_running_loop().create_future()
    failed.set_exception(ValueError("made to fail"))
    unawaited(failed)
    await asyncio.sleep(0)
    assert "made to fail" in caplog.text


async def test_closing_waits_for_what_is_pending_and_refuses_the_rest(
    store: GatedStore, writer: MetadataWriter
) -> None:
    store.gate.clear()
    first = writer.submit([Change(b"a", b"1")])
    await until_syncing(store)
    second = writer.submit([Change(b"b", b"1")])
    closing = asyncio.create_task(writer.aclose())
    await asyncio.sleep(0)
    with pytest.raises(MetadataUnavailable, match="closed"):
        writer.submit([Change(b"c", b"1")])
    assert not closing.done()
    store.gate.set()
    await closing
    assert (first.result(), second.result()) == (1, 2)
    await writer.aclose()


async def test_an_unused_writer_closes_at_once(writer: MetadataWriter) -> None:
    async with asyncio.timeout(DEADLINE_SECONDS):
        await writer.aclose()
    assert not writer._thread.is_alive()
