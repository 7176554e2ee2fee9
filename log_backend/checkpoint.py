"""A checkpoint: where the cursors of partitions stand, stored once their segments are synced."""

from collections.abc import Collection, Sequence

from log_backend.first_kept import first_kept_change
from log_backend.metadata import Change, MetadataStore
from log_backend.partition_log import PartitionLog


def snapshots(partitions: Collection[PartitionLog]) -> list[Change]:
    """What to store of partitions whose segments are synced to their ends."""
    changes: list[Change] = []
    for partition in partitions:
        if partition.closed:
            continue
        # The file of an empty one may be gone, and what is called synced has to be there.
        if partition.segments and partition.segments[-1].size:
            partition.synced_offset = partition.segments[-1].end_offset
        marks = (partition.number, partition.next_offset, partition.synced_offset)
        for cursor in partition.cursors.values():
            changes += cursor.snapshot(*marks)
        if partition.first_kept_moved():
            changes.append(first_kept_change(partition.number, partition.first_kept))
    return changes


def store(metadata: MetadataStore, changes: Sequence[Change]) -> None:
    """Make changes durable."""
    if changes:
        metadata.apply(changes, synced=False)
        metadata.sync()
