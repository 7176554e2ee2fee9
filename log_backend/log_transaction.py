"""Changes of several partitions that survive a crash together, or not at all.

One block of the journal holds them, and a block is whole or no block. Until the journal has it, no other file
may tell of them: their batches stay out of segments.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

from log_backend.journal_groups import JournalGroups
from log_backend.journal_waiters import JournalWaiters
from log_backend.record_batch import RecordBatch


class CommittingPartition(Protocol):
    """What a transaction needs of a partition that it writes to."""

    def hold_back(self, offset: int) -> None:
        """Write no batch to segments that begins at an offset or behind it."""

    def committed(self) -> None:
        """The oldest offset held back is one no more."""


@contextmanager
def together(
    groups: JournalGroups, waiters: JournalWaiters, partitions: Mapping[int, CommittingPartition]
) -> Iterator[None]:
    """Make one transaction of what is appended meanwhile; await nothing in it.

    Args:
        partitions: by number, all that there are.
    """
    with groups.together() as entries:
        begin = len(entries)
        try:
            yield
        finally:
            first_offsets: dict[int, int] = {}
            for entry in entries[begin:]:
                if isinstance(entry.change, RecordBatch):
                    first_offsets.setdefault(entry.partition, entry.change.base_offset)
            group = groups.last
            for number, offset in first_offsets.items():
                partition = partitions[number]
                partition.hold_back(offset)
                waiters.wait(group.position, partition.committed, durable=group.synced)
