"""Removal of partitions: files are deleted only when the partition's deletion is durable."""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from os import fspath
from pathlib import Path

from routelog.log_backend.doors.clock import Clock
from routelog.log_backend.doors.disk import Disk
from routelog.log_backend.metadata.metadata import Change, MetadataStore
from routelog.log_backend.partitions.partition_log import PartitionLog
from routelog.log_backend.remote.remote_log import mark_change
from routelog.log_backend.segments.damage import damage_change
from routelog.log_backend.segments.first_kept import first_kept_change
from routelog.log_backend.segments.segment_writer import SegmentWriter
from routelog.log_backend.settlement.cursor_snapshot import cursor_prefix, partition_prefix

# A deleted partition's files: b"tombstones/" directory below the data directory -> its number, decimal.
TOMBSTONES = b"tombstones/"

# A removal makes many short system calls. After each, the thread takes the GIL back before the event loop has
# woken up for it, so 20,000 removals in a row blocked the loop for 5 to 20 ms at a time.
REMOVED_MAX = 4  # directories between two rests: 0.2 ms
REST_SECONDS = 0.0005


class PartitionRemoval:
    """Deletes the directories of partitions, in the thread that writes their segments.

    Attributes:
        undecided: partitions that are closed, and whose deletion is not durable yet; only read by others.

    Args:
        in_flusher: runs work in that thread, in the order of the calls.
    """

    def __init__(
        self,
        data: Path,
        writer: SegmentWriter,
        metadata: MetadataStore,
        clock: Clock,
        in_flusher: Callable[[Callable[[], None]], None],
    ) -> None:
        self._data = data
        self._writer = writer
        self._metadata = metadata
        self._clock = clock
        self._in_flusher = in_flusher
        self._removed = 0  # since the last rest; only used in the flusher's thread
        self.undecided: set[PartitionLog] = set()
        self._waiting: deque[tuple[set[PartitionLog], Callable[[], None]]] = deque()

    def change(self, partition: PartitionLog) -> Change:
        """The metadata change to apply together with a durable partition's removal from the topology.

        Call `remove` when it is durable. The snapshots of its cursors are deleted with its files, because a
        checkpoint may still be storing some.
        """
        self.undecided.add(partition)
        return Change(self._tombstone(partition.directory_text), b"%d" % partition.number)

    def changes_of_cursor(self, partition: PartitionLog, cursor: int) -> list[Change]:
        """Metadata changes to apply together with a cursor's removal from the topology."""
        if not partition.durable:
            return []
        prefix = cursor_prefix(partition.number, cursor)
        return [Change(key, None) for key, _ in self._metadata.scan(prefix)]

    def remove(self, partitions: Sequence[PartitionLog]) -> None:
        """Delete the files of partitions that are not durable, or whose `change` is."""
        if not partitions:
            return
        gone = [(each.directory_text, each.number if each.durable else None) for each in partitions]
        self._in_flusher(partial(self._remove, gone))
        self.undecided.difference_update(partitions)
        for undecided, _ in self._waiting:
            undecided.difference_update(partitions)
        self._go_on()

    def when_decided(self, then: Callable[[], None]) -> None:
        """Call a function when all removals that are under way are durable; in the order of the calls."""
        self._waiting.append((set(self.undecided), then))
        self._go_on()

    def give_up(self) -> None:
        """Make all waiting calls now: the node stops."""
        self.undecided.clear()
        while self._waiting:
            self._waiting.popleft()[1]()

    def _go_on(self) -> None:
        while self._waiting and not self._waiting[0][0]:
            self._waiting.popleft()[1]()

    def resume(self) -> None:
        """Continue the removals that an earlier run has begun."""
        for key, entry in list(self._metadata.scan(TOMBSTONES)):
            directory = self._data / key[len(TOMBSTONES) :].decode()
            number = int(entry.value)
            if self._writer.owner_of(directory) == number:
                self.remove_directory(directory, number)
            else:
                self._forget(directory, number)

    def remove_directory(self, directory: Path, number: int | None = None) -> None:
        """Delete the files of a partition, then its metadata.

        Args:
            number: of the partition; None: delete no metadata.
        """
        self._in_flusher(partial(self._remove, [(fspath(directory), number)]))

    def _remove(self, gone: Sequence[tuple[str, int | None]]) -> None:
        failed: Exception | None = None
        for path, number in gone:
            try:
                self._remove_one(Path(path), number)
            except Exception as error:  # go on with the others
                failed = error
            self._removed += 1
            if self._removed == REMOVED_MAX:
                self._removed = 0
                self._clock.pause(REST_SECONDS)
        if failed is not None:
            raise failed

    def _remove_one(self, directory: Path, number: int | None) -> None:
        # This thread also writes segments and snapshots, so none of this partition can follow.
        if number is None or self._writer.owner_of(directory) in (None, number):
            self._writer.remove_directory(directory)  # else a new partition owns the directory
        if number is not None:
            self._forget(directory, number)

    def _forget(self, directory: Path, number: int) -> None:
        gone = [key for key, _ in self._metadata.scan(partition_prefix(number))]
        tombstone = self._tombstone(fspath(directory))
        entry = self._metadata.get(tombstone)
        if entry is not None and int(entry.value) == number:  # else it belongs to a later partition
            gone.append(tombstone)
        changes = [Change(key, None) for key in gone]
        changes += [damage_change(number, None), first_kept_change(number, None)]
        changes.append(mark_change(number, is_marked=False))
        self._metadata.apply(changes, synced=False)

    def _tombstone(self, directory: str) -> bytes:
        return TOMBSTONES + directory.removeprefix(f"{self._data}/").encode()


def empty_spill(data: Path, disk: Disk) -> None:
    """Remove the segments that an earlier run wrote for partitions that are not durable."""
    spill = data / "spill"
    for vhost in disk.list_directory(spill):
        for partition in disk.list_directory(spill / vhost):
            disk.remove_tree(spill / vhost / partition)
