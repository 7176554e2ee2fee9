"""A checkpoint: where the cursors of partitions stand, stored once their segments are synced."""

from collections.abc import Collection, Sequence

from log_backend.metadata import Change, MetadataStore
from log_backend.partition_log import PartitionLog


def snapshots(partitions: Collection[PartitionLog]) -> list[Change]:
    """What to store of partitions whose segments are synced to their ends."""
    changes: list[Change] = []
    for partition in partitions:
        if partition.closed:
            continue
        if partition.segments:
            partition.synced_offset = partition.segments[-1].end_offset
        marks = (partition.number, partition.next_offset, partition.synced_offset)
        for cursor in partition.cursors.values():
            changes += cursor.snapshot(*marks)
    return changes


def store(metadata: MetadataStore, changes: Sequence[Change]) -> None:
    """Make changes durable."""
    if changes:
        metadata.apply(changes, synced=False)
        metadata.sync()
