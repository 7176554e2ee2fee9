"""Changes of several partitions that survive a crash together, or not at all.

One block of the journal holds them, and a block is whole or no block. Until it is durable, no other file may
tell of them: their batches stay out of segments, and what they settle is settled in memory afterwards, so that
no snapshot of a cursor knows it earlier.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from log_backend.journal import Journal
from log_backend.journal_block import Reason, Settlement
from log_backend.journal_entry import JournalEntry
from log_backend.record_batch import RecordBatch


class CommittingPartition(Protocol):
    """What a transaction needs of a partition that it writes to."""

    def hold_back(self, offset: int) -> None:
        """Write no batch to segments that begins at an offset or behind it."""

    def committed(self) -> None:
        """The oldest offset held back is one no more."""


@dataclass(frozen=True, slots=True)
class SettledRange:
    """Offsets [first, end) of a partition that a cursor of it will have settled.

    Attributes:
        partition: its number.
        cursor: the cursor's number.
    """

    partition: int
    cursor: int
    first: int
    end: int
    reason: Reason

    def entry(self) -> JournalEntry:
        """What the journal has to know."""
        settlement = Settlement(self.cursor, ((self.first, self.end),), self.reason)
        return JournalEntry(self.partition, settlement)


def commit_together(
    journal: Journal,
    partitions: Mapping[int, CommittingPartition],
    append: Callable[[], object],
    settled: Iterable[SettledRange],
) -> int:
    """Journal what a function appends, and what will be settled, as one.

    Args:
        partitions: by number, all that there are.
        append: appends to partitions, and awaits nothing.
        settled: journaled here, and settled in memory by the caller when the position is durable.

    Returns:
        The journal position that has to be durable; 0: nothing of it is for the journal.

    Raises:
        JournalFailed: the disk failed before; nothing of it will be durable.
    """
    with journal.groups.together() as entries:
        append()
        for each in settled:
            journal.groups.append(each.entry(), True, True)
    if not entries:
        return 0
    position = journal.groups.synced()
    first_offsets: dict[int, int] = {}
    for entry in entries:
        if isinstance(entry.change, RecordBatch):
            first_offsets.setdefault(entry.partition, entry.change.base_offset)
    for number, offset in first_offsets.items():
        partition = partitions[number]
        partition.hold_back(offset)
        journal.waiters.wait(position, partition.committed, durable=True)
    return position
