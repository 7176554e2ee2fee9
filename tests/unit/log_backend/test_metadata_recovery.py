import asyncio
from pathlib import Path

import pytest
from support.waiting import until
from unit.log_backend.open_store import (
    MIB,
    QUIET,
    append,
    copy_of,
    crash,
    durable,
    fill_journal_file,
    open_store,
    start_store,
)
from unit.log_backend.watched_disk import WatchedDisk

from routelog.log_backend.doors.disk import SystemDisk
from routelog.log_backend.journal.journal_extent import JournalExtent
from routelog.log_backend.journal.journal_reader import JournalDamaged
from routelog.log_backend.log_store import LogOptions, LogStore
from routelog.log_backend.metadata.metadata import Change, MetadataStore
from routelog.log_backend.tools.data_directory import DataDirectory
from routelog.log_backend.tools.log_repair import Repair
from routelog.log_backend.tools.log_verification import Verification

ONE_FILE = LogOptions(journal_file_bytes=MIB, journal_files_max=2, flush_seconds=3600)


def started(data: Path) -> LogStore:
    """A store that has recovered its metadata, and has no partitions."""
    store = open_store(data)
    store.recover_metadata()
    store.recover()
    store.start(1)
    return store


def applied(store: LogStore) -> int:
    return JournalExtent(store.metadata).applied


def without_metadata(left: Path) -> None:
    """A power cut takes from the metadata what was not synced since they knew of the journal's files."""
    store = MetadataStore.open(left / "metadata")
    gone = [
        key for key, _ in store.scan(b"") if not key.startswith((b"journal/first", b"journal/last"))
    ]
    store.apply([Change(key, None) for key in gone])
    store.close()


async def change(store: LogStore, *changes: Change) -> int:
    async with asyncio.timeout(60):
        return await store.metadata_writer.submit(changes)


async def test_what_the_metadata_have_lost_comes_from_the_journal(data: Path) -> None:
    store = started(data)
    await change(store, Change(b"a", b"1"), Change(b"b", b"1"))
    await change(store, Change(b"a", b"2"))
    position = await change(store, Change(b"b", None), Change(b"c", b""))
    left = await crash(store, data)
    await store.aclose()
    without_metadata(left)
    store = open_store(left)
    assert store.metadata.get(b"a") is None
    store.recover_metadata()
    found = {key: store.metadata.get(key) for key in (b"a", b"b", b"c")}
    assert {key: entry and entry.value for key, entry in found.items()} == {
        b"a": b"2",
        b"b": None,
        b"c": b"",
    }
    assert applied(store) == position
    store.recover()
    store.start(2)
    assert await change(store, Change(b"d", b"")) > position
    await store.aclose()


async def test_what_the_metadata_have_is_not_carried_out_again(data: Path) -> None:
    store = started(data)
    await change(store, Change(b"a", b"1"))
    left = await crash(store, data)
    await store.aclose()
    store = open_store(left)
    store.metadata.apply([Change(b"a", b"of the test")])
    store.recover_metadata()
    entry = store.metadata.get(b"a")
    assert entry is not None
    assert entry.value == b"of the test"
    store.recover()
    store.start(2)
    await store.aclose()


async def test_the_journal_is_synced_before_the_metadata_are_told(data: Path) -> None:
    store = started(data)
    await change(store, Change(b"a", b"1"))
    left = await crash(store, data)
    await store.aclose()
    without_metadata(left)
    disk = WatchedDisk()
    store = open_store(left, disk=disk)
    told: list[int] = []
    synced = disk.sync

    def sync(file: int) -> None:
        told.append(applied(store))
        synced(file)

    disk.sync = sync  # type: ignore[method-assign]
    store.recover_metadata()
    assert told
    assert set(told) == {0}
    assert applied(store)
    store.recover()
    store.start(2)
    await store.aclose()


async def test_a_checkpoint_makes_the_metadata_durable_before_it_frees_a_file(data: Path) -> None:
    store, (partition,) = start_store(data, options=QUIET)
    done = store.metadata_writer.submit([Change(b"a", b"1")])
    await fill_journal_file(store, partition)
    await until(lambda: JournalExtent(store.metadata).beginning.number > 1)
    assert done.done()
    left = await crash(store, data)
    await store.aclose()
    store = open_store(left)
    store.recover_metadata()
    assert store.metadata.get(b"a") is not None
    await asyncio.to_thread(store.metadata.close)


async def test_a_deletion_gets_room_when_all_files_wait_for_it(data: Path) -> None:
    store, (kept, gone) = start_store(data, options=ONE_FILE, queues=("kept", "gone"))
    await durable(store, append(gone, 1))
    changes = store.close_partitions(gone)  # undecided, until the test submits it
    await fill_journal_file(store, kept)
    await fill_journal_file(store, kept)
    await until(lambda: store.journal.supply.held)
    async with asyncio.timeout(60):
        await store.metadata_writer.submit(changes)
    store.remove_files(gone)
    await until(lambda: not store.journal.supply.held)
    await store.aclose()


async def test_a_journal_that_ends_before_what_the_metadata_have_is_damaged_until_its_repair(
    data: Path,
) -> None:
    store = started(data)
    await change(store, Change(b"a", b"1"))
    position = await change(store, Change(b"a", b"2"))
    left = await crash(store, data)
    await store.aclose()
    (path,) = [
        each for each in (left / "journal").glob("*.journal") if b"RLJ2" in each.read_bytes()[:4]
    ]
    content = bytearray(path.read_bytes())
    at = content.rfind(b"RLJ2")
    content[at : at + 4096] = bytes(4096)
    path.write_bytes(content)
    store = open_store(left)
    with pytest.raises(JournalDamaged, match=f"commit {position} is missing"):
        store.recover_metadata()
    await leave(store)
    disk = SystemDisk()
    metadata = MetadataStore.open(left / "metadata")
    directory = DataDirectory(left, disk, metadata, {})
    found = list(Verification(directory).journal())
    assert any(f"commits {position} to {position} are missing" in each.reason for each in found)
    assert list(Repair(directory, left / "aside", is_dry=False).run())
    assert not [each for each in Verification(directory).journal() if each.severity == "damage"]
    metadata.close()
    store = started(left)
    entry = store.metadata.get(b"a")
    assert entry is not None
    assert entry.value == b"2"
    assert await change(store, Change(b"b", b"")) > position
    left = await crash(store, left, "again")
    await store.aclose()
    without_metadata(left)
    store = open_store(left)
    store.recover_metadata()
    assert store.metadata.get(b"b") is not None
    await leave(store)


async def leave(store: LogStore) -> None:
    """Let go of a store that has not started."""
    store.metadata_writer.close()
    for executor in (store._flusher, store.reads._executor, store._journal_files):
        executor.shutdown()
    store.metadata.close()
    store._disk.close(store._lock)


async def test_a_stop_ends_what_was_submitted(data: Path) -> None:
    store = started(data)
    done = store.metadata_writer.submit([Change(b"a", b"1")])
    await store.aclose()
    assert done.result() > 0
    store = started(copy_of(data, data.parent / "copy"))
    assert store.metadata.get(b"a") is not None
    await store.aclose()
