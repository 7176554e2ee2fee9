"""Removal of partitions: their files go when nothing can bring the partition back, even over a crash."""

from collections import deque
from collections.abc import Callable
from pathlib import Path

from log_backend.cursor_snapshot import cursor_prefix, partition_prefix
from log_backend.damage import damage_change
from log_backend.disk import Disk
from log_backend.metadata import Change, MetadataStore
from log_backend.partition_log import PartitionLog
from log_backend.segment_writer import SegmentWriter

# A deleted partition's files: b"tombstones/" directory below the data directory -> its number, decimal.
TOMBSTONES = b"tombstones/"


class PartitionRemoval:
    """Deletes the directories of partitions, in the thread that writes their segments.

    Args:
        in_flusher: runs work in that thread, in the order of the calls.
    """

    def __init__(
        self,
        data: Path,
        writer: SegmentWriter,
        metadata: MetadataStore,
        in_flusher: Callable[[Callable[[], None]], None],
    ) -> None:
        self._data = data
        self._writer = writer
        self._metadata = metadata
        self._in_flusher = in_flusher
        self._undecided: set[PartitionLog] = set()  # a crash may bring them back
        self._waiting: deque[tuple[set[PartitionLog], Callable[[], None]]] = deque()

    def changes(self, partition: PartitionLog) -> list[Change]:
        """Metadata changes to apply together with a durable partition's removal from the topology.

        `remove` says that they are durable.
        """
        self._undecided.add(partition)
        prefix = partition_prefix(partition.number)
        gone = [Change(key, None) for key, _ in self._metadata.scan(prefix)]
        if partition.damage.found or partition.damage.lost:
            gone.append(damage_change(partition.number, None))
        return [Change(self._tombstone(partition), b"%d" % partition.number), *gone]

    def changes_of_cursor(self, partition: PartitionLog, cursor: int) -> list[Change]:
        """Metadata changes to apply together with a cursor's removal from the topology."""
        if not partition.durable:
            return []
        prefix = cursor_prefix(partition.number, cursor)
        return [Change(key, None) for key, _ in self._metadata.scan(prefix)]

    def remove(self, partition: PartitionLog) -> None:
        """Delete the files of a partition that is not durable, or whose `changes` are."""
        self.remove_directory(
            partition.directory, self._tombstone(partition) if partition.durable else None
        )
        self._undecided.discard(partition)
        for undecided, _ in self._waiting:
            undecided.discard(partition)
        self._go_on()

    def when_decided(self, then: Callable[[], None]) -> None:
        """Do something once the removals that are under way are durable; in the order of the calls."""
        self._waiting.append((set(self._undecided), then))
        self._go_on()

    def give_up(self) -> None:
        """The node stops: do what waits."""
        self._undecided.clear()
        while self._waiting:
            self._waiting.popleft()[1]()

    def _go_on(self) -> None:
        while self._waiting and not self._waiting[0][0]:
            self._waiting.popleft()[1]()

    def resume(self) -> None:
        """Go on with what an earlier run had begun to delete."""
        for key, entry in list(self._metadata.scan(TOMBSTONES)):
            directory = self._data / key[len(TOMBSTONES) :].decode()
            if self._writer.owner_of(directory) == int(entry.value):
                self.remove_directory(directory, key)
            else:
                self._metadata.apply([Change(key, None)], synced=False)

    def remove_directory(self, directory: Path, tombstone: bytes | None = None) -> None:
        """Delete the files of a partition, then its tombstone if there is one."""

        def remove() -> None:
            # The same thread writes segments, so nothing of the partition comes after this.
            self._writer.remove_directory(directory)
            if tombstone is not None and self._metadata.get(tombstone) is not None:
                self._metadata.apply([Change(tombstone, None)], synced=False)

        self._in_flusher(remove)

    def _tombstone(self, partition: PartitionLog) -> bytes:
        return TOMBSTONES + str(partition.directory.relative_to(self._data)).encode()


def empty_spill(data: Path, disk: Disk) -> None:
    """Remove what an earlier run kept of partitions that are not durable."""
    spill = data / "spill"
    for vhost in disk.list_directory(spill):
        for partition in disk.list_directory(spill / vhost):
            disk.remove_tree(spill / vhost / partition)
