"""Recovery: partitions as snapshots, segments and the journal leave them when a node starts."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from log_backend.cursor import Cursor
from log_backend.cursor_snapshot import cursor_number, partition_prefix
from log_backend.disk import Disk
from log_backend.journal_block import Block, JournalEntry, Reason
from log_backend.log_directory import base_offsets, segment_path
from log_backend.metadata import Change, MetadataStore
from log_backend.partition_log import PartitionLog
from log_backend.record_batch import RecordBatch
from log_backend.segment import open_active, open_sealed
from log_backend.segment_forms import leave_one_form
from log_backend.segment_writer import SegmentWriter


class Recovery:
    """Brings partitions back: `load` each one, then `replay` the journal once."""

    def __init__(
        self,
        disk: Disk,
        metadata: MetadataStore,
        writer: SegmentWriter,
        remove_directory: Callable[[Path], None],
    ) -> None:
        self._disk = disk
        self._metadata = metadata
        self._writer = writer
        self._remove_directory = remove_directory
        self._known_offsets: dict[int, int] = {}  # by partition: behind the highest one ever given

    def load(self, partition: PartitionLog, begins: Mapping[int, int]) -> bool:
        """Restore the cursors of a partition from their snapshots, and open its segments.

        Only the cursors that the partition has already are known: what a snapshot or the journal
        says of others belongs to groups that were deleted.

        Args:
            begins: by number of a cursor, the offset below which it had no use for anything.

        Returns:
            Whether a checkpoint has something to sync.

        Raises:
            SegmentDamaged, SnapshotDamaged: what was durable cannot be read.
        """
        self._restore_cursors(partition)
        for number, begin in begins.items():
            partition.open_cursor(number).settle(0, begin)
            self._know(partition, begin)
        names = self._disk.list_directory(partition.directory)
        bases = base_offsets(names)
        if names and not (bases and self._writer.owner_of(partition.directory) == partition.number):
            # Of a deleted queue of the same name, or without segments: then a run that was killed may not
            # have synced the number. Gone before anything of this one is written.
            self._remove_directory(partition.directory)
            names, bases = [], []
        leave_one_form(self._disk, partition.directory, names)
        return self._open_segments(partition, bases)

    def replay(self, blocks: Iterable[Block], partitions: Mapping[int, PartitionLog]) -> int:
        """Carry out what the journal says; returns the entries replayed.

        Args:
            partitions: all that exist, by number; entries of others are passed over.
        """
        replayed = 0
        for block in blocks:
            for entry in block.entries:
                partition = partitions.get(entry.partition)
                if partition is not None:
                    self._replay(partition, entry)
                    replayed += 1
        for partition in partitions.values():
            partition.skip_to(self._known_offsets.pop(partition.number, 0))
        return replayed

    def _restore_cursors(self, partition: PartitionLog) -> None:
        snapshots: dict[int, list[tuple[bytes, bytes]]] = {}
        for key, entry in self._metadata.scan(partition_prefix(partition.number)):
            snapshots.setdefault(cursor_number(key), []).append((key, entry.value))
        for number, snapshot in snapshots.items():
            cursor = partition.cursors.get(number)
            if cursor is None:
                # A checkpoint was under way when its group was deleted.
                gone = [Change(key, None) for key, _ in snapshot]
                self._metadata.apply(gone, synced=False)
                continue
            marks = cursor.restore(snapshot)
            self._know(partition, marks.next_offset)
            partition.synced_offset = max(partition.synced_offset, marks.synced_offset)

    def _open_segments(self, partition: PartitionLog, bases: list[int]) -> bool:
        if not bases:
            return False
        paths = [segment_path(partition.directory, base) for base in bases]
        gone: list[tuple[int, int]] = []
        end = 0
        for path, base in zip(paths[:-1], bases[:-1], strict=True):
            sealed, transient = open_sealed(self._disk, path, base)
            partition.segments.append(sealed)
            gone += [(end, base), *transient]
            end = sealed.end_offset
        segment, more = open_active(self._disk, paths[-1], bases[-1], partition.synced_offset)
        partition.segments.append(segment)
        partition.next_offset = segment.end_offset
        # Perhaps not on the disk yet, and the journal will forget what is in it.
        segment.unsynced = segment.end_offset > partition.synced_offset
        gone += [(end, bases[-1]), *more]
        if partition.is_stream:
            gone = [(0, bases[0])]  # only its retention takes records; all are journaled
        for cursor in partition.cursors.values():
            for first, behind in gone:
                cursor.settle(first, behind, Reason.LOST)
        return segment.unsynced

    def _replay(self, partition: PartitionLog, entry: JournalEntry) -> None:
        change = entry.change
        if isinstance(change, RecordBatch):
            change.records.payload = bytearray(change.records.payload)
            partition.recovered(change)
            return
        # Of a deleted group nothing comes back. Records may be gone, but offsets that an entry speaks of
        # must not be given again.
        cursor = partition.cursors.get(change.cursor) or Cursor(change.cursor, None)
        self._know(partition, cursor.replay(change))

    def _know(self, partition: PartitionLog, offset: int) -> None:
        known = self._known_offsets.get(partition.number, 0)
        self._known_offsets[partition.number] = max(known, offset)
