import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rocksdict import Options, Rdict, ReadOptions

from routelog.log_backend.metadata.metadata import (
    BATCHES_MAX,
    PAGE_ENTRIES_MAX,
    Change,
    Entry,
    MetadataCorrupt,
    MetadataStore,
    MetadataUnavailable,
)

PROJECT = Path(__file__).parents[4]
WRITE_AND_DIE = """
import ast, os, pathlib, sys
from routelog.log_backend.metadata.metadata import Change, MetadataStore
path, values, synced = pathlib.Path(sys.argv[1]), *map(ast.literal_eval, sys.argv[2:])
store = MetadataStore.open(path)
for number, value in enumerate(values):
    store.apply([Change(b"key%03d" % number, value)], synced=synced)
os._exit(0)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "metadata"


@pytest.fixture
def store(path: Path) -> Iterator[MetadataStore]:
    store = MetadataStore.open(path)
    yield store
    store.close()


class FailingEngine:
    """An engine whose next write or sync fails once, as a disk reports an error once."""

    def __init__(self, path: Path) -> None:
        options = Options(raw_mode=True)
        options.create_if_missing(True)
        self._engine = Rdict(str(path), options)
        self.fails_write = False
        self.fails_sync = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def write(self, batch: Any) -> None:
        if self.fails_write:
            self.fails_write = False
            raise Exception("IO error: No space left on device")
        self._engine.write(batch)

    def flush_wal(self, sync: bool) -> None:
        if self.fails_sync:
            self.fails_sync = False
            raise Exception("IO error: Input/output error")
        self._engine.flush_wal(sync)


def keys(store: MetadataStore, prefix: bytes) -> list[bytes]:
    return [key for key, _ in store.scan(prefix)]


def write_and_die(path: Path, values: list[bytes], *, synced: bool) -> None:
    """Apply one change per value in a process that ends without closing the store."""
    arguments = [str(path), repr(values), repr(synced)]
    subprocess.run([sys.executable, "-c", WRITE_AND_DIE, *arguments], cwd=PROJECT, check=True)


def wal_of(path: Path) -> Path:
    return max(path.glob("*.log"))


def test_what_was_applied_is_read_back_with_the_revision_of_its_batch(store: MetadataStore) -> None:
    assert store.revision == 0
    assert store.apply([Change(b"a", b"1"), Change(b"b", b"")]) == 1
    assert store.apply([Change(b"a", b"2")]) == 2
    assert store.get(b"a") == Entry(b"2", 2)
    assert store.get(b"b") == Entry(b"", 1)
    assert store.get(b"c") is None


def test_a_change_without_a_value_deletes(store: MetadataStore) -> None:
    store.apply([Change(b"a", b"1")])
    store.apply([Change(b"a", None), Change(b"never there", None)])
    assert store.get(b"a") is None


def test_the_last_of_two_changes_of_one_key_wins(store: MetadataStore) -> None:
    store.apply([Change(b"a", b"1"), Change(b"a", None), Change(b"a", b"2")])
    assert store.get(b"a") == Entry(b"2", 1)


def test_no_changes_are_no_batch(store: MetadataStore) -> None:
    store.apply([Change(b"a", b"1")])
    assert store.apply([]) == 1


@pytest.mark.parametrize("key", [b"", b"\x00", b"\x00store"])
def test_keys_of_the_store_itself_cannot_be_written(store: MetadataStore, key: bytes) -> None:
    with pytest.raises(ValueError, match="belongs to the store"):
        store.apply([Change(b"a", b"1"), Change(key, b"x")])
    assert store.get(b"a") is None


def test_a_scan_is_ordered_and_stays_within_its_prefix(store: MetadataStore) -> None:
    names = [b"users/b", b"users/a", b"users/a\x00", b"users0", b"user", b"\xff", b"users/"]
    store.apply([Change(name, name) for name in names])
    assert keys(store, b"users/") == [b"users/", b"users/a", b"users/a\x00", b"users/b"]
    assert keys(store, b"") == sorted(names)
    assert keys(store, b"nothing") == []
    assert keys(store, b"\xff") == [b"\xff"]


class CrowdedIterator:
    """Has other bounds made before it looks: where the memory of its own was let go, one of them lies there."""

    def __init__(self, iterator: Any) -> None:
        self._iterator = iterator

    def seek(self, key: bytes) -> None:
        self._others = [ReadOptions() for _ in range(200)]
        for other in self._others:
            other.set_iterate_upper_bound(b"k00000")
        self._iterator.seek(key)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._iterator, name)


class CrowdedEngine:
    """An engine whose iterators are not alone in memory."""

    def __init__(self, path: Path) -> None:
        self._engine = Rdict(str(path), Options(raw_mode=True))

    def iter(self, options: ReadOptions) -> CrowdedIterator:
        return CrowdedIterator(self._engine.iter(options))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


def test_a_scan_reaches_the_end_of_its_prefix_whatever_else_takes_memory(path: Path) -> None:
    store = MetadataStore(CrowdedEngine(path))
    expected = [b"k%05d" % number for number in range(300)]
    store.apply([Change(key, b"v") for key in expected])
    for _ in range(100):
        assert keys(store, b"k0010") == [key for key in expected if key.startswith(b"k0010")]


@pytest.mark.parametrize("count", [PAGE_ENTRIES_MAX - 1, PAGE_ENTRIES_MAX, PAGE_ENTRIES_MAX + 1])
def test_a_scan_over_several_pages_misses_nothing(store: MetadataStore, count: int) -> None:
    expected = [b"k%05d" % number for number in range(count)]
    store.apply([Change(key, b"v") for key in expected] + [Change(b"l", b"other prefix")])
    assert keys(store, b"k") == expected


def test_the_very_next_key_after_a_page_is_not_skipped(store: MetadataStore) -> None:
    expected = [b"k%05d" % number for number in range(PAGE_ENTRIES_MAX)]
    expected += [expected[-1] + b"\x00", expected[-1] + b"\x00\x00"]
    store.apply([Change(key, b"v") for key in expected])
    assert keys(store, b"k") == expected


def test_entries_and_revisions_survive_a_reopening(path: Path) -> None:
    store = MetadataStore.open(path)
    store.apply([Change(b"a", b"1")])
    store.apply([Change(b"b", b"2")])
    store.close()
    store = MetadataStore.open(path)
    assert list(store.scan(b"")) == [(b"a", Entry(b"1", 1)), (b"b", Entry(b"2", 2))]
    assert store.apply([Change(b"a", b"3")]) == 3
    store.close()


def test_a_revision_is_not_given_again_after_its_entry_is_deleted(path: Path) -> None:
    store = MetadataStore.open(path)
    store.apply([Change(b"a", b"1")])
    store.apply([Change(b"a", None)])
    store.close()
    store = MetadataStore.open(path)
    assert store.apply([Change(b"a", b"2")]) == 3
    store.close()


def test_changes_survive_a_process_that_dies_without_closing(path: Path) -> None:
    write_and_die(path, [b"1", b"2"], synced=True)
    store = MetadataStore.open(path)
    assert [entry for _, entry in store.scan(b"")] == [Entry(b"1", 1), Entry(b"2", 2)]
    store.close()


def test_a_torn_tail_takes_only_the_last_batch_with_it(path: Path) -> None:
    write_and_die(path, [b"x" * 100] * 10, synced=False)
    wal = wal_of(path)
    os.truncate(wal, wal.stat().st_size - 50)
    store = MetadataStore.open(path)
    assert keys(store, b"") == [b"key%03d" % number for number in range(9)]
    assert store.revision == 9
    store.close()


def test_damage_before_the_tail_is_refused_and_not_cut_off(path: Path) -> None:
    write_and_die(path, [b"x" * 100] * 10, synced=True)
    wal = wal_of(path)
    content = bytearray(wal.read_bytes())
    content[len(content) // 2] ^= 1
    wal.write_bytes(content)
    with pytest.raises(MetadataCorrupt):
        MetadataStore.open(path)


def test_the_bytes_on_disk_are_those_of_the_drawing(path: Path) -> None:
    store = MetadataStore.open(path)
    store.apply([Change(b"a", b"value")])
    store.close()
    engine = Rdict(str(path), Options(raw_mode=True))
    assert dict(engine.items()) == {
        b"a": bytes.fromhex("0000000000000001") + b"value",
        b"\x00store": bytes.fromhex("01 0000000000000001"),
    }
    engine.close()


@pytest.mark.parametrize("record", ["", "01", "02 0000000000000001"])
def test_a_store_of_an_unknown_format_is_refused_and_let_go(path: Path, record: str) -> None:
    engine = Rdict(str(path), Options(raw_mode=True))
    engine[b"\x00store"] = bytes.fromhex(record)
    engine.close()
    for _ in range(2):
        with pytest.raises(MetadataCorrupt, match="unknown format"):
            MetadataStore.open(path)


def test_an_entry_without_a_revision_is_corrupt(path: Path) -> None:
    engine = Rdict(str(path), Options(raw_mode=True))
    engine[b"a"] = b"1234567"
    engine.close()
    store = MetadataStore.open(path)
    with pytest.raises(MetadataCorrupt):
        store.get(b"a")
    with pytest.raises(MetadataCorrupt):
        keys(store, b"")
    store.close()


def test_a_directory_has_one_owner(store: MetadataStore, path: Path) -> None:
    with pytest.raises(MetadataUnavailable, match=r"(?i)lock"):
        MetadataStore.open(path)


def test_a_place_that_cannot_be_a_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(MetadataUnavailable):
        MetadataStore.open(tmp_path / "file" / "metadata")


def test_a_closed_store_refuses_everything_and_frees_its_directory(path: Path) -> None:
    store = MetadataStore.open(path)
    store.apply([Change(b"a", b"1")])
    half_read = store.scan(b"")
    next(half_read)
    store.close()
    store.close()
    with pytest.raises(MetadataUnavailable, match="closed"):
        store.get(b"a")
    with pytest.raises(MetadataUnavailable, match="closed"):
        next(half_read)
    with pytest.raises(MetadataUnavailable, match="closed"):
        store.apply([Change(b"a", b"2")])
    with pytest.raises(MetadataUnavailable, match="closed"):
        store.sync()
    MetadataStore.open(path).close()


def test_a_failed_sync_is_final_although_the_next_one_would_succeed(path: Path) -> None:
    engine = FailingEngine(path)
    store = MetadataStore(engine)
    store.apply([Change(b"a", b"1")])
    engine.fails_sync = True
    with pytest.raises(MetadataUnavailable, match="sync of the metadata failed"):
        store.apply([Change(b"a", b"2")])
    with pytest.raises(MetadataUnavailable, match="sync of the metadata failed"):
        store.sync()
    with pytest.raises(MetadataUnavailable, match="sync of the metadata failed"):
        store.apply([Change(b"b", b"3")], synced=False)
    assert store.get(b"b") is None
    assert store.get(b"a") is not None
    store.close()


def test_a_failed_write_is_final_and_does_not_take_a_revision(path: Path) -> None:
    engine = FailingEngine(path)
    store = MetadataStore(engine)
    engine.fails_write = True
    with pytest.raises(MetadataUnavailable, match="No space left"):
        store.apply([Change(b"a", b"1")])
    with pytest.raises(MetadataUnavailable, match="No space left"):
        store.apply([Change(b"a", b"1")])
    assert store.revision == 0
    store.close()


def test_unsynced_changes_cost_no_sync_until_one_is_asked_for(path: Path) -> None:
    engine = FailingEngine(path)
    store = MetadataStore(engine)
    engine.fails_sync = True  # would be noticed
    store.apply([Change(b"a", b"1")], synced=False)
    assert store.get(b"a") == Entry(b"1", 1)
    with pytest.raises(MetadataUnavailable):
        store.sync()
    store.close()


def test_a_scan_may_begin_within_a_prefix(store: MetadataStore) -> None:
    store.apply([Change(b"a%d" % number, b"") for number in range(5)])
    assert [key for key, _ in store.scan(b"a", b"a3")] == [b"a3", b"a4"]
    assert [key for key, _ in store.scan(b"a", b"A")] == [b"a%d" % number for number in range(5)]
    assert list(store.scan(b"a", b"b")) == []


def test_a_range_is_deleted_and_nothing_beside_it(path: Path) -> None:
    store = MetadataStore.open(path)
    store.apply([Change(b"a%d" % number, b"") for number in range(5)])
    revision = store.revision
    store.delete_range(b"a1", b"a3")
    store.close()
    store = MetadataStore.open(path)
    assert [key for key, _ in store.scan(b"a")] == [b"a0", b"a3", b"a4"]
    assert store.revision == revision
    for first, end in ((b"b", b"a"), (b"\x00", b"a")):
        with pytest.raises(ValueError, match="is no range of keys"):
            store.delete_range(first, end)
    store.close()
    with pytest.raises(MetadataUnavailable):
        store.delete_range(b"a", b"b")


def test_many_batches_are_as_many_revisions(store: MetadataStore) -> None:
    batches = [[Change(b"%d" % number, b"")] for number in range(3 * BATCHES_MAX + 1)]
    store.apply_each([*batches, []])
    store.apply_each([])
    assert [entry.revision for _, entry in store.scan(b"1")][:2] == [2, 11]
    assert store.revision == len(batches)
