"""Where the log of a partition ends for its readers."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.waiting import until
from unit.log_backend.log_records import records
from unit.log_backend.open_store import append, crash, durable, flushed, start_store
from unit.log_backend.watched_disk import WatchedDisk

from routelog.log_backend.journal.journal import JournalFailed
from routelog.log_backend.records.durability import Durability
from routelog.log_backend.segments.retention import Retention

KEPT = Retention(2**60)


@pytest.mark.parametrize("level", [Durability.OS, Durability.DISK])
async def test_it_is_what_the_journal_has_as_the_level_promises(
    data: Path, level: Durability
) -> None:
    store, (log,) = start_store(data, durabilities=[level])
    first = append(log, 3)
    assert (log.next_offset, log.visible_end) == (3, 0)
    await until(lambda: log.visible_end == 3)
    reached = store.journal.durable if level is Durability.DISK else store.journal.written
    assert reached >= first
    store.journal.hold()
    append(log, 2)
    append(log, 2)
    assert (log.next_offset, log.visible_end) == (7, 3)
    store.journal.let_go()
    await until(lambda: log.visible_end == 7)
    await store.aclose()


async def test_of_level_memory_all_is_visible_at_once(data: Path) -> None:
    store, (log,) = start_store(data, durabilities=[Durability.MEMORY], retention=KEPT)
    other = store.open_partition(2, "/", "other", 0, durable=False, retention=KEPT)
    for each in (log, other):
        append(each, 3)
        assert each.visible_end == 3
    await store.aclose()


async def test_what_is_not_in_the_journal_waits_for_what_lies_before(data: Path) -> None:
    store, (log,) = start_store(data)
    append(log, 2, persistent=False)
    assert log.visible_end == 2
    store.journal.hold()
    append(log)
    append(log, 2, persistent=False)
    assert log.visible_end == 2
    log.promise(Durability.MEMORY)
    append(log)
    assert (log.next_offset, log.visible_end) == (6, 2)
    store.journal.let_go()
    await until(lambda: log.visible_end == 6)
    await store.aclose()


async def test_offsets_that_readers_saw_of_transient_records_are_not_given_again(
    data: Path,
) -> None:
    store, (log,) = start_store(data, retention=KEPT)
    await durable(store, append(log, 2))
    assert append(log, 3, persistent=False) == 0, "nobody waits for them"
    assert log.visible_end == 2
    await until(lambda: log.visible_end == 5)
    left = await crash(store, data)
    await store.aclose()
    store, (log,) = start_store(left, retention=KEPT, epoch=2)
    assert log.next_offset == log.visible_end == 5
    assert log.open_cursor().settled.unsettled_from(0) == 0
    assert log.open_cursor().settled.unsettled_from(2) == 5
    await store.aclose()


async def test_no_segment_has_what_is_not_visible(data: Path) -> None:
    store, (log,) = start_store(data, retention=KEPT)
    await durable(store, append(log, 3))
    store.journal.hold()
    append(log, 2)
    append(log, 2, persistent=False)
    await store.checkpoints.flush()
    assert log.segments[-1].written_end == log.visible_end == 3
    assert log.last_batch_offset == 0
    store.journal.let_go()
    await flushed(store)
    assert log.segments[-1].written_end == log.visible_end == 7
    await store.aclose()


async def test_a_clean_stop_leaves_everything_in_segments(data: Path) -> None:
    store, (log,) = start_store(data, retention=KEPT)
    append(log, 3)
    append(log, 2, persistent=False)
    await store.aclose()
    assert log.segments[-1].written_end == 5


async def test_behind_a_failed_disk_it_stays_where_it_was(data: Path) -> None:
    disk = WatchedDisk()
    store, (log,) = start_store(data, disk=disk, retention=KEPT)
    await durable(store, append(log, 3))
    disk.fail("write", "*.journal")
    disk.fail("write_synced", "*.journal")
    append(log, 2)
    seen: list[int] = []
    log.when_visible(lambda: seen.append(log.visible_end))
    await until(lambda: store.journal.failure is not None)
    with pytest.raises(JournalFailed):
        append(log)
    with pytest.raises(JournalFailed):
        append(log, persistent=False)
    assert (log.next_offset, log.visible_end, seen) == (5, 3, [])
    await store.aclose()


async def test_who_waits_is_told_once_when_more_is_visible(data: Path) -> None:
    store, (log,) = start_store(data)
    seen: list[int] = []

    def told() -> None:
        seen.append(log.visible_end)

    log.when_visible(told)  # all is visible: nothing is to come
    position = append(log)
    log.when_visible(told)
    log.when_visible(told)
    append(log)
    await durable(store, position)
    assert seen == [2]
    await durable(store, append(log))
    assert seen == [2]
    await store.aclose()


async def test_memory_is_freed_as_soon_as_what_was_hidden_is_visible(data: Path) -> None:
    store, (log,) = start_store(data, retention=KEPT)
    store.intake.tail_bytes_watched = store.memory.tail_bytes_max = 10_000
    store.journal.hold()
    for _ in range(25):
        log.append(records([bytes(1_000)]))
    await until(lambda: not store._background.tasks)
    assert store.pressures.reasons == {"memory"}
    assert not log.segments
    store.journal.let_go()
    await until(lambda: not store.pressures.reasons)
    assert log.segments[-1].written_end == 25
    await store.aclose()
