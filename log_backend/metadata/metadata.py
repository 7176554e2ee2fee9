"""The metadata store: ordered keys in RocksDB with atomic batches, revisions and compare-and-set.

Every batch that is applied gets the next revision, and each of its entries is stamped with it::

    key                     value
    any other key           revision u64, then the value as given
    00 "store"              format version u8 (1), latest revision u64

Integers are big-endian. The latest revision is written in the same batch as the entries, so a
revision is never given twice, even if the entry that carried the highest one is deleted. Keys
that begin with a zero byte belong to the store itself.
"""

import struct
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from rocksdict import (
    AccessType,
    BlockBasedOptions,
    Cache,
    Checkpoint,
    DBRecoveryMode,
    Env,
    Options,
    Rdict,
    ReadOptions,
    WriteBatch,
)

from routelog.log_backend.doors.clock import Clock, SystemClock
from routelog.log_backend.doors.disk import Disk, SystemDisk
from routelog.log_backend.metadata.metadata_log import find_damage

FORMAT_VERSION = 1
STORE_KEY = b"\x00store"
FIRST_FREE_KEY = b"\x01"

WRITE_BUFFER_BYTES = 4 * 1024 * 1024  # switching to another buffer holds the GIL for some ms
WRITE_BUFFERS_MAX = 8  # room for a burst: if all are full, the writer stalls and holds the GIL
BLOCK_CACHE_BYTES = 1024 * 1024  # small: callers keep in memory what they read often
BACKGROUND_JOBS_MAX = 2  # the least with which RocksDB can flush and compact
OPEN_FILES_MAX = 64  # segments need the other descriptors
INFO_LOG_BYTES_MAX = 256 * 1024
MANIFEST_PREALLOCATION_BYTES = 64 * 1024
BATCHES_MAX = 16  # written in one step, with the GIL held: 0.2 ms
REST_SECONDS = 0.0003  # between two steps, so that other threads get the GIL
PAGE_ENTRIES_MAX = 512  # read by a scan while it holds the lock: below 1 ms
PAGE_BYTES_MAX = 1024 * 1024  # unless one entry is larger: values may have 90 KB each

_REVISION = struct.Struct(">Q")
_STORE_RECORD = struct.Struct(">BQ")


class MetadataUnavailable(Exception):
    """The store refuses all changes: it is closed, or a write or sync has failed."""


class MetadataCorrupt(Exception):
    """The data on the disk cannot be read: it is damaged, or a later version has written it."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A value and the revision of the batch that wrote it (1 or more)."""

    value: bytes
    revision: int


@dataclass(frozen=True, slots=True)
class Change:
    """A key to write, or to delete if `value` is None."""

    key: bytes
    value: bytes | None


class MetadataStore:
    """An ordered map from bytes to revisioned bytes, on disk; safe to use from any thread.

    Attributes:
        make_room: set by the owner; called in any thread before something is written.

    Guarantees:
        A failed write or sync is final. The kernel may have dropped the pages, so a second
        sync that succeeds proves nothing: the store refuses all further changes instead. Reads
        go on and may show changes that did not reach the disk.
    """

    def __init__(self, engine: Rdict, clock: Clock | None = None) -> None:
        self.make_room: Callable[[], object] = lambda: None
        self._engine = engine
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()  # guards all fields and the engine; never held over a sync
        self._sync_lock = threading.Lock()  # one sync at a time, see sync()
        self._failure: str | None = None
        self._closed = False
        self._revision = self._read_latest_revision()

    @classmethod
    def open(
        cls,
        path: Path,
        disk: Disk | None = None,
        clock: Clock | None = None,
        *,
        read_only: bool = False,
    ) -> "MetadataStore":
        """Open the store in the directory `path`, which is created if it is missing.

        Args:
            disk: makes the directory; the system's if not given. The engine does all else itself.
            clock: the system's if not given.
            read_only: changes are refused; the engine only rewrites its own small configuration file.

        Raises:
            MetadataUnavailable: another process or store holds it, or the disk refused.
            MetadataCorrupt: it is damaged before its torn tail, or of an unknown format.
        """
        disk = disk or SystemDisk()
        with _engine_errors():
            damage = find_damage(disk, path)
            if damage is not None:
                raise MetadataCorrupt("{} of the metadata is damaged at byte {}".format(*damage))
            if read_only:
                engine = Rdict(str(path), _options(), access_type=AccessType.read_only())
            else:
                disk.make_directory(path)
                engine = Rdict(str(path), _options())
        return cls(engine, clock)

    @property
    def revision(self) -> int:
        """The latest revision given; 0 for an empty store."""
        return self._revision

    def get(self, key: bytes) -> Entry | None:
        """Return the entry at `key`, or None."""
        with self._lock:
            return self._get(key)

    def scan(
        self, prefix: bytes, start: bytes = b"", page_entries: int = PAGE_ENTRIES_MAX
    ) -> Iterator[tuple[bytes, Entry]]:
        """Yield the entries whose keys begin with `prefix`, in the order of their keys.

        It reads page by page, so changes made meanwhile may be seen or missed.

        Args:
            start: keys below are passed over.
            page_entries: how many are read together, for who takes no more than these.
        """
        start = max(start, prefix) or FIRST_FREE_KEY
        while page := self._page(prefix, start, page_entries):
            yield from page
            start = page[-1][0] + b"\x00"

    def apply(self, changes: Sequence[Change], *, synced: bool = True) -> int:
        """Write `changes` as one batch; this blocks for the sync.

        Args:
            changes: of several changes of one key, the last counts. An empty batch writes nothing.
            synced: False returns before the batch is durable; call `sync()` for that.

        Returns:
            The revision of the batch.

        Raises:
            MetadataUnavailable: closed or failed; if it failed just now, the batch may or may
                not be there after a restart.

        Guarantees:
            All of the batch survives a crash, or none of it, and batches survive in order.
        """
        self.apply_each([changes])
        if synced:
            self.sync()
        return self._revision

    def apply_each(self, batches: Iterable[Sequence[Change]]) -> None:
        """Write several batches, unsynced: see `apply`, which writes one.

        It writes some batches in one step, which holds the GIL, and rests between the steps.

        Raises:
            MetadataUnavailable: closed or failed; if it failed just now, the first of them may be
                there after a restart, in their order.
        """
        left = iter(batches)
        together = list(islice(left, BATCHES_MAX))
        while together:
            self._apply_together(together)
            together = list(islice(left, BATCHES_MAX))
            if together:
                self._clock.pause(REST_SECONDS)

    def delete_range(self, first: bytes, end: bytes) -> None:
        """Delete the entries with keys in [first, end); as durable as the next sync.

        Raises:
            MetadataUnavailable: closed or failed.
        """
        if not FIRST_FREE_KEY <= first <= end:
            raise ValueError(f"[{first!r}, {end!r}) is no range of keys")
        batch = WriteBatch(raw_mode=True)
        batch.delete_range(first, end)
        with self._lock:
            self._refuse_if_unavailable()
            self._write_batch(batch)

    def sync(self) -> None:
        """Make all that was applied durable; this blocks.

        Raises:
            MetadataUnavailable: closed or failed.
        """
        # A sync error is reported once. Two syncs at the same time could share it: one fails, the
        # other returns with success although its data went with the same pages.
        with self._sync_lock:
            self._refuse_if_unavailable()
            try:
                # Not WriteOptions.sync: rocksdict keeps the GIL in write() and frees it here.
                self._engine.flush_wal(True)
            except Exception as error:
                raise self._failed("sync", error) from error

    def flush(self) -> None:
        """Write what is in memory to files of its own; this blocks.

        Raises:
            MetadataUnavailable: closed or failed.
        """
        with self._sync_lock:
            self._refuse_if_unavailable()
            try:
                self.make_room()
                self._engine.flush(True)
            except Exception as error:
                raise self._failed("flush", error) from error

    def copy(self, path: Path) -> None:
        """Make a store at `path`, which is not there yet, with what this one has at this moment.

        It shares the files that do not change. This holds the GIL for 2 to 10 ms, longer if `flush` was not
        called just before.

        Raises:
            MetadataUnavailable: closed, or the disk refused.
        """
        with self._lock, _engine_errors():
            self._refuse_if_closed()
            Checkpoint(self._engine).create_checkpoint(str(path))

    def close(self) -> None:
        """Sync what was applied and free the directory; closing twice is harmless.

        Raises:
            MetadataUnavailable: the last changes could not be made durable.
        """
        with self._sync_lock, self._lock:
            if self._closed:
                return
            self._closed = True
            try:
                self._engine.close()
            except Exception as error:
                raise self._failed("close", error) from error

    def _get(self, key: bytes) -> Entry | None:
        self._refuse_if_closed()
        with _engine_errors():
            stored = self._engine.get(key)
        return None if stored is None else _decode(key, stored)

    def _page(self, prefix: bytes, start: bytes, entries: int) -> list[tuple[bytes, Entry]]:
        page: list[tuple[bytes, Entry]] = []
        size = 0
        with self._lock, _engine_errors():
            self._refuse_if_closed()
            # The iterator must not outlive the lock: it would keep the directory after close().
            # The options must outlive the iterator: it keeps no copy of the bound.
            within = _within(prefix)
            cursor = self._engine.iter(within)
            cursor.seek(start)
            while len(page) < entries and size < PAGE_BYTES_MAX and cursor.valid():
                key = cursor.key()
                if not key.startswith(prefix):
                    break
                entry = _decode(key, cursor.value())
                page.append((key, entry))
                size += len(key) + len(entry.value)
                cursor.next()
            cursor.status()
        return page

    def _apply_together(self, batches: Sequence[Sequence[Change]]) -> None:
        with self._lock:
            self._refuse_if_unavailable()
            revision, writes = self._revision, WriteBatch(raw_mode=True)
            for changes in filter(None, batches):
                revision += 1
                _put(changes, revision, writes)
            if revision > self._revision:
                writes.put(STORE_KEY, _STORE_RECORD.pack(FORMAT_VERSION, revision))
                self._write_batch(writes)
                self._revision = revision

    def _write_batch(self, batch: WriteBatch) -> None:
        try:
            self.make_room()
            self._engine.write(batch)
        except Exception as error:
            raise self._failed("write", error) from error

    def _read_latest_revision(self) -> int:
        with _engine_errors():
            stored = self._engine.get(STORE_KEY)
        if stored is None:
            return 0
        if len(stored) != _STORE_RECORD.size or stored[0] != FORMAT_VERSION:
            self._engine.close()
            raise MetadataCorrupt(f"unknown format of the metadata store: {stored[:16].hex()}")
        revision: int = _STORE_RECORD.unpack(stored)[1]
        return revision

    def _failed(self, action: str, error: Exception) -> MetadataUnavailable:
        self._failure = f"{action} of the metadata failed: {error}"
        return MetadataUnavailable(self._failure)

    def _refuse_if_unavailable(self) -> None:
        if self._failure is not None:
            raise MetadataUnavailable(self._failure)
        self._refuse_if_closed()

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise MetadataUnavailable("the metadata store is closed")


def _put(changes: Sequence[Change], revision: int, writes: WriteBatch) -> None:
    stamp = _REVISION.pack(revision)
    for change in changes:
        if change.key < FIRST_FREE_KEY:
            raise ValueError(f"the key {change.key!r} belongs to the store")
        if change.value is None:
            writes.delete(change.key)
        else:
            writes.put(change.key, stamp + change.value)


def _within(prefix: bytes) -> ReadOptions:
    # Without an upper bound, the iterator would skip over all keys deleted since the last compaction, to find
    # the next one: with 20,000 deleted partitions, each scan took 20 ms.
    options = ReadOptions()
    above = prefix.rstrip(b"\xff")
    if above:
        options.set_iterate_upper_bound(above[:-1] + bytes([above[-1] + 1]))
    return options


def _decode(key: bytes, stored: bytes) -> Entry:
    if len(stored) < _REVISION.size:
        raise MetadataCorrupt(f"the entry {key!r} has no revision")
    return Entry(stored[_REVISION.size :], _REVISION.unpack_from(stored)[0])


@contextmanager
def _engine_errors() -> Iterator[None]:
    """Turn errors of the engine into typed ones: it raises bare Exceptions that begin with a status name."""
    try:
        yield
    except (MetadataUnavailable, MetadataCorrupt):
        raise
    except Exception as error:
        is_corrupt = str(error).startswith("Corruption")
        raise (MetadataCorrupt if is_corrupt else MetadataUnavailable)(str(error)) from error


def _options() -> Options:
    """Options for a few megabytes of metadata: little memory, few threads, a quick start."""
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_write_buffer_size(WRITE_BUFFER_BYTES)
    options.set_max_write_buffer_number(WRITE_BUFFERS_MAX)
    options.set_max_background_jobs(BACKGROUND_JOBS_MAX)
    options.set_max_file_opening_threads(1)
    options.set_max_open_files(OPEN_FILES_MAX)
    env = Env()
    env.lower_thread_pool_cpu_priority()  # of compactions, which nobody waits for
    options.set_env(env)
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(INFO_LOG_BYTES_MAX)
    options.set_manifest_preallocation_size(MANIFEST_PREALLOCATION_BYTES)
    options.set_stats_dump_period_sec(0)
    options.set_stats_persist_period_sec(0)
    # A torn last record is an unsynced write. Damage before the end is a loss, and must be reported:
    # point-in-time recovery, the default, would silently drop everything behind it.
    options.set_wal_recovery_mode(DBRecoveryMode.tolerate_corrupted_tail_records())
    blocks = BlockBasedOptions()
    blocks.set_block_cache(Cache(BLOCK_CACHE_BYTES))
    options.set_block_based_table_factory(blocks)
    return options
