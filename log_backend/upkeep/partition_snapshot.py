"""A checkpoint: where the cursors of partitions stand, stored once their segments are synced."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from routelog.log_backend.metadata.metadata import Change, MetadataStore
from routelog.log_backend.partitions.partition_log import PartitionLog
from routelog.log_backend.segments.first_kept import first_kept_change


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A partition as a checkpoint has seen it.

    Attributes:
        cursors: what to store of them.
        begins_elsewhere: than the metadata say; stored is where it begins by then: segments may be
            removed meanwhile, which says so before.
    """

    partition: PartitionLog
    cursors: list[Change]
    begins_elsewhere: bool

    def changes(self) -> list[Change]:
        """What to store, in any thread; nothing of what was closed: it may have been removed before."""
        partition = self.partition
        if partition.closed:
            return []
        if self.begins_elsewhere:
            return [*self.cursors, first_kept_change(partition.number, partition.first_kept)]
        return self.cursors


def snapshot(partition: PartitionLog) -> Snapshot:
    """Look at a partition whose segments are synced to their ends, but for a newest one that nobody needs."""
    # The file of an empty one may be gone, and what is called synced has to be there.
    newest = partition.segments[-1] if partition.segments else None
    if newest is not None and newest.size and not newest.unsynced:
        partition.synced_offset = newest.end_offset
    marks = (partition.number, partition.next_offset, partition.synced_offset)
    cursors = [
        change for cursor in partition.cursors.values() for change in cursor.snapshot(*marks)
    ]
    return Snapshot(partition, cursors, partition.first_kept_moved())


def store_snapshots(
    metadata: MetadataStore, snapshots: Sequence[Snapshot], more: Sequence[Change]
) -> None:
    """Make snapshots durable, and then other changes.

    A crash may leave those of some partitions only: the journal still has what led to them, and they stand
    behind it.
    """
    outcomes = metadata.apply_each(chain((each.changes() for each in snapshots), [more]))
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            raise outcome
    metadata.sync()


def store(metadata: MetadataStore, changes: Sequence[Change]) -> None:
    """Make changes durable."""
    if changes:
        metadata.apply(changes)
