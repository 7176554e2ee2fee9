"""The snapshots of a checkpoint: the state of partitions' cursors, stored after their segments are synced."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from routelog.log_backend.journal.journal_extent import JournalExtent
from routelog.log_backend.metadata.metadata import Change, MetadataStore
from routelog.log_backend.partitions.partition_log import PartitionLog
from routelog.log_backend.segments.first_kept import first_kept_change


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of a partition at a checkpoint.

    Attributes:
        cursors: the changes that store its cursors.
        begins_elsewhere: the stored begin of the log is outdated. `changes` stores the begin at that time:
            segments may be removed in between.
    """

    partition: PartitionLog
    cursors: list[Change]
    begins_elsewhere: bool

    def behind(self, earlier: "Snapshot | None") -> "Snapshot":
        """With what an earlier one has that was not stored: a cursor tells of each of its changes once."""
        if earlier is None:
            return self
        cursors = {each.key: each for each in (*earlier.cursors, *self.cursors)}
        begins_elsewhere = earlier.begins_elsewhere or self.begins_elsewhere
        return Snapshot(self.partition, list(cursors.values()), begins_elsewhere)

    def changes(self) -> list[Change]:
        """The changes to store, in any thread; empty if the partition is closed: it may be removed already."""
        partition = self.partition
        if partition.closed:
            return []
        if self.begins_elsewhere:
            return [*self.cursors, first_kept_change(partition.number, partition.first_stored)]
        return self.cursors


def snapshot(partition: PartitionLog) -> Snapshot:
    """Take the snapshot of a partition whose needed segments are synced to their ends."""
    # The file of an empty segment may be missing; below `synced_offset` nothing may be.
    newest = partition.segments[-1] if partition.segments else None
    if newest is not None and newest.size and not newest.unsynced:
        partition.synced_offset = newest.end_offset
    marks = (partition.number, partition.next_offset, partition.synced_offset)
    cursors = [
        change for cursor in partition.cursors.values() for change in cursor.snapshot(*marks)
    ]
    return Snapshot(partition, cursors, partition.first_kept_moved())


def store_snapshots(
    metadata: MetadataStore,
    committed: int,
    snapshots: Sequence[Snapshot],
    more: Sequence[Change],
) -> None:
    """Make snapshots durable, and then other changes.

    Args:
        committed: position of a committed block, behind which the snapshots tell of nothing.

    After a crash, only some partitions may have their new snapshot. That is harmless: the journal still has the
    changes, and replaying them again changes nothing.
    """
    first = [JournalExtent.committed_change(committed)]
    metadata.apply_each(chain([first], (each.changes() for each in snapshots), [more]))
    metadata.sync()
