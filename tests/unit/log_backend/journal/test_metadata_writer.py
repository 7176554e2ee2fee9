import asyncio
import gc
import logging
from collections.abc import AsyncIterator, Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import cast

import pytest
from unit.passing_time import take_turns

from routelog.log_backend.journal.journal import Journal, JournalFailed
from routelog.log_backend.journal.journal_entry import JournalEntry
from routelog.log_backend.journal.journal_extent import JournalExtent
from routelog.log_backend.journal.metadata_writer import RESOLVED_MAX, MetadataWriter, unawaited
from routelog.log_backend.journal.receipt import Progress
from routelog.log_backend.metadata.metadata import Change, MetadataStore, MetadataUnavailable

DEADLINE_SECONDS = 60.0


class FailingStore(MetadataStore):
    """A store that can fail."""

    fails: bool

    def apply_each(self, batches: Iterable[Sequence[Change]]) -> None:
        if self.fails:
            raise self._failed("write", OSError("Input/output error"))
        super().apply_each(batches)


class FakeJournal:
    """A journal whose block that gathers is committed when the test says so."""

    def __init__(self) -> None:
        self.committed = 0
        self.progress = Progress(lambda call: call(), float)
        self.failure: Exception | None = None
        self.entries: list[JournalEntry] = []

    def append(self, entry: JournalEntry, *, waited: bool) -> int:
        assert waited
        if self.failure is not None:
            raise self.failure
        self.entries.append(entry)
        return self.committed + 1

    def commit(self) -> None:
        self.committed += 1
        self.progress.advance(self.committed, self.committed)


@pytest.fixture
def store(tmp_path: Path) -> Iterable[FailingStore]:
    store = FailingStore.open(tmp_path / "metadata")
    assert isinstance(store, FailingStore)
    store.fails = False
    yield store
    store.close()


@pytest.fixture
def journal() -> FakeJournal:
    return FakeJournal()


@pytest.fixture
async def writer(store: FailingStore, journal: FakeJournal) -> AsyncIterator[MetadataWriter]:
    writer = MetadataWriter(cast(Journal, journal), store, asyncio.get_running_loop())
    yield writer
    writer.close()


def keys(store: MetadataStore) -> list[bytes]:
    return [key for key, _ in store.scan(b"") if not key.startswith(b"journal/")]


def applied(store: MetadataStore) -> int:
    return JournalExtent(store).applied


async def test_the_store_hears_of_a_change_when_the_journal_has_it_durably(
    store: FailingStore, writer: MetadataWriter, journal: FakeJournal
) -> None:
    done = writer.submit([Change(b"a", b"1")])
    await take_turns()
    assert not done.done()
    assert keys(store) == []
    journal.commit()
    assert await done == 1
    assert (keys(store), applied(store)) == ([b"a"], 1)


async def test_the_store_has_a_block_only_with_its_last_change(
    store: FailingStore,
    writer: MetadataWriter,
    journal: FakeJournal,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written: list[list[bytes]] = []

    def apply_each(batches: Iterable[Sequence[Change]]) -> list[int | Exception]:
        written.extend([change.key for change in batch] for batch in batches)
        return []

    monkeypatch.setattr(store, "apply_each", apply_each)
    done = [writer.submit([Change(b"%d" % number, b"")]) for number in range(3)]
    journal.commit()
    done.append(writer.submit([Change(b"3", b"")]))
    journal.commit()
    assert await asyncio.gather(*done) == [1, 1, 1, 2]
    mark = b"journal/applied"
    assert written == [[b"0"], [b"1"], [b"2", mark], [b"3", mark]]


async def test_a_large_group_is_resolved_in_several_turns_of_the_loop(
    writer: MetadataWriter, journal: FakeJournal
) -> None:
    others = [writer.submit([Change(b"k%d" % number, b"")]) for number in range(100)]
    journal.commit()
    resolved = [sum(each.done() for each in others)]
    while resolved[-1] < len(others):
        await asyncio.sleep(0)
        resolved.append(sum(each.done() for each in others))
    assert max(after - before for before, after in pairwise(resolved)) == RESOLVED_MAX


async def test_who_waits_for_the_store_waits_for_all_that_is_durable(
    store: FailingStore, writer: MetadataWriter, journal: FakeJournal
) -> None:
    await writer.applied()
    for number in range(30):
        writer.submit([Change(b"%02d" % number, b"1")]).cancel()
    journal.commit()
    writer.submit([Change(b"late", b"1")])  # not durable: nobody waits for it
    waiting = asyncio.ensure_future(writer.applied())
    await asyncio.sleep(0)
    assert not waiting.done()
    assert applied(store) == 0
    await asyncio.wait_for(waiting, DEADLINE_SECONDS)
    assert (keys(store), applied(store)) == ([b"%02d" % number for number in range(30)], 1)


async def test_a_change_that_is_no_use_is_refused_before_the_journal_has_it(
    writer: MetadataWriter, journal: FakeJournal
) -> None:
    with pytest.raises(ValueError, match="belongs to the store"):
        writer.submit([Change(b"", b"1")])
    assert journal.entries == []


async def test_changes_are_those_at_the_time_of_submission(
    store: FailingStore, writer: MetadataWriter, journal: FakeJournal
) -> None:
    changes = [Change(b"a", b"1")]
    done = writer.submit(changes)
    changes.clear()
    journal.commit()
    await done
    assert store.get(b"a") is not None


async def test_a_cancelled_waiter_disturbs_nobody(
    store: FailingStore, writer: MetadataWriter, journal: FakeJournal
) -> None:
    cancelled = writer.submit([Change(b"a", b"1")])
    kept = writer.submit([Change(b"b", b"1")])
    cancelled.cancel()
    journal.commit()
    await asyncio.wait_for(kept, DEADLINE_SECONDS)
    assert store.get(b"a") is not None


async def test_a_store_that_fails_refuses_all_that_comes(
    store: FailingStore, writer: MetadataWriter, journal: FakeJournal
) -> None:
    store.fails = True
    group = [writer.submit([Change(b"a", b"1")]), writer.submit([Change(b"b", b"2")])]
    journal.commit()
    outcomes = await asyncio.gather(*group, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [MetadataUnavailable] * 2
    with pytest.raises(MetadataUnavailable, match="write of the metadata failed"):
        writer.submit([Change(b"later", b"")])
    assert len(journal.entries) == 2


async def test_a_journal_that_fails_fails_what_it_does_not_have(
    store: FailingStore, writer: MetadataWriter, journal: FakeJournal
) -> None:
    durable = [writer.submit([Change(b"%02d" % number, b"1")]) for number in range(30)]
    journal.commit()
    lost = writer.submit([Change(b"b", b"1")])
    journal.failure = JournalFailed(OSError("Input/output error"))
    writer.failed(journal.failure)
    with pytest.raises(MetadataUnavailable, match="Input/output error"):
        await lost
    with pytest.raises(MetadataUnavailable, match="Input/output error"):
        writer.check()
    assert await asyncio.gather(*durable) == [1] * 30
    assert len(keys(store)) == 30


async def test_a_block_that_is_durable_too_late_is_carried_out_by_a_start_not_in_part(
    store: FailingStore, writer: MetadataWriter, journal: FakeJournal
) -> None:
    done = [writer.submit([Change(b"%d" % number, b"")]) for number in range(RESOLVED_MAX + 2)]
    writer.failed(JournalFailed(OSError("of a segment")))
    journal.commit()
    for each in done:
        with pytest.raises(MetadataUnavailable):
            await each
    assert (keys(store), applied(store)) == ([], 0)


async def test_a_journal_that_has_failed_before_it_said_so_refuses(
    writer: MetadataWriter, journal: FakeJournal
) -> None:
    journal.failure = JournalFailed(OSError("Input/output error"))
    with pytest.raises(MetadataUnavailable, match="Input/output error"):
        writer.submit([Change(b"a", b"1")])


async def test_a_failure_that_nobody_waits_for_is_told_once_by_the_writer(
    store: FailingStore,
    writer: MetadataWriter,
    journal: FakeJournal,
    caplog: pytest.LogCaptureFixture,
) -> None:
    store.fails = True
    for key in (b"a", b"b"):
        writer.submit([Change(key, b"1")])
    journal.commit()
    await writer.applied()
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


async def test_what_is_stopped_goes_on_with_what_was_submitted(
    writer: MetadataWriter, journal: FakeJournal
) -> None:
    done = [writer.submit([Change(b"k%d" % number, b"")]) for number in range(200)]
    writer.stop()
    with pytest.raises(MetadataUnavailable, match="closed"):
        writer.submit([Change(b"c", b"1")])
    journal.commit()
    writer.close()
    assert {each.result() for each in done} == {1}


async def test_closing_fails_what_the_journal_does_not_have(
    writer: MetadataWriter, journal: FakeJournal
) -> None:
    done = writer.submit([Change(b"a", b"")])
    writer.close()
    with pytest.raises(MetadataUnavailable, match="closed"):
        await done


class Barrier:
    """Lets the answers of a position go when the test says so.

    Attributes:
        gates: by position, in the order of the calls.
    """

    def __init__(self) -> None:
        self.gates: dict[int, asyncio.Future[int]] = {}
        self.calls: list[int] = []

    def __call__(self, position: int) -> asyncio.Future[int]:
        self.calls.append(position)
        return self.gates.setdefault(position, asyncio.get_running_loop().create_future())


@pytest.fixture
def barrier(writer: MetadataWriter) -> Barrier:
    writer.barrier = Barrier()
    return writer.barrier


async def test_an_answer_waits_for_the_barrier_and_the_store_does_not(
    store: FailingStore, writer: MetadataWriter, journal: FakeJournal, barrier: Barrier
) -> None:
    done = writer.submit([Change(b"a", b"1")])
    await take_turns()
    assert barrier.calls == []
    journal.commit()
    await writer.applied()
    await take_turns()
    assert (keys(store), applied(store), barrier.calls) == ([b"a"], 1, [1])
    assert not done.done()
    barrier.gates[1].set_result(1)
    assert await asyncio.wait_for(done, DEADLINE_SECONDS) == 1


async def test_answers_keep_their_order_whichever_gate_opens_first(
    writer: MetadataWriter, journal: FakeJournal, barrier: Barrier
) -> None:
    order: list[int] = []

    def submit(number: int) -> asyncio.Future[int]:
        done = writer.submit([Change(b"%d" % number, b"1")])
        done.add_done_callback(lambda _: order.append(number))
        return done

    done = [submit(0), submit(1)]
    journal.commit()
    done.append(submit(2))
    journal.commit()
    writer.barrier = lambda position: None
    done.append(submit(3))  # waits for nobody but those before it
    journal.commit()
    barrier.gates[2].set_result(2)
    await take_turns()
    assert order == []
    barrier.gates[1].set_result(1)
    assert await asyncio.wait_for(asyncio.gather(*done), DEADLINE_SECONDS) == [1, 1, 2, 3]
    assert order == [0, 1, 2, 3]


async def test_a_crowd_behind_one_gate_is_answered_in_several_turns(
    writer: MetadataWriter, journal: FakeJournal, barrier: Barrier
) -> None:
    others = [writer.submit([Change(b"k%d" % number, b"")]) for number in range(100)]
    journal.commit()
    await writer.applied()
    await take_turns()
    assert not any(each.done() for each in others)
    barrier.gates[1].set_result(1)
    resolved = [0]
    while resolved[-1] < len(others):
        await asyncio.sleep(0)
        resolved.append(sum(each.done() for each in others))
    assert max(after - before for before, after in pairwise(resolved)) == RESOLVED_MAX


async def test_who_is_cancelled_at_the_barrier_disturbs_nobody(
    writer: MetadataWriter, journal: FakeJournal, barrier: Barrier
) -> None:
    cancelled, kept = (writer.submit([Change(key, b"1")]) for key in (b"a", b"b"))
    journal.commit()
    await take_turns()
    cancelled.cancel()
    barrier.gates[1].cancel()  # whoever owns it is gone: nobody has to be waited for
    assert await asyncio.wait_for(kept, DEADLINE_SECONDS) == 1


async def test_a_journal_that_fails_answers_who_waits_at_the_barrier(
    store: FailingStore, writer: MetadataWriter, journal: FakeJournal, barrier: Barrier
) -> None:
    waiting = [writer.submit([Change(b"%02d" % number, b"1")]) for number in range(30)]
    journal.commit()
    await writer.applied()
    journal.failure = JournalFailed(OSError("Input/output error"))
    writer.failed(journal.failure)
    for each in waiting:
        with pytest.raises(MetadataUnavailable, match="Input/output error"):
            await asyncio.wait_for(each, DEADLINE_SECONDS)
    assert len(keys(store)) == 30
    barrier.gates[1].set_result(1)
    await take_turns()


async def test_a_store_that_fails_answers_behind_who_waits_at_the_barrier(
    store: FailingStore, writer: MetadataWriter, journal: FakeJournal, barrier: Barrier
) -> None:
    before = writer.submit([Change(b"a", b"1")])
    journal.commit()
    await writer.applied()
    store.fails = True
    behind = writer.submit([Change(b"b", b"1")])
    journal.commit()
    await take_turns()
    assert not behind.done()
    assert barrier.calls == [1]
    barrier.gates[1].set_result(1)
    assert await asyncio.wait_for(before, DEADLINE_SECONDS) == 1
    with pytest.raises(MetadataUnavailable):
        await asyncio.wait_for(behind, DEADLINE_SECONDS)


async def test_closing_answers_who_waits_at_the_barrier(
    writer: MetadataWriter, journal: FakeJournal, barrier: Barrier
) -> None:
    waiting = [writer.submit([Change(b"%02d" % number, b"1")]) for number in range(30)]
    journal.commit()
    await writer.applied()
    writer.close()
    assert all(isinstance(each.exception(), MetadataUnavailable) for each in waiting)
    barrier.gates[1].set_result(1)
    await take_turns()
