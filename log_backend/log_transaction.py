"""Changes of several partitions that survive a crash together, or not at all.

One block of the journal holds them, and a block is whole or no block. Until it is durable, no other file may
tell of them: their batches stay out of segments, and what they settle is settled in memory afterwards, so that
no snapshot of a cursor knows it earlier.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

from log_backend.journal import Journal
from log_backend.settled_entries import SettledEntries

Append = Callable[[], object]
Settled = Iterable[SettledEntries]


class CommittingPartition(Protocol):
    """What a transaction needs of a partition that it writes to."""

    def hold_back(self, offset: int) -> None:
        """Write no batch to segments that begins at an offset or behind it."""

    def committed(self) -> None:
        """The oldest offset held back is one no more."""


@contextmanager
def together(
    journal: Journal, partitions: Mapping[int, CommittingPartition], *, synced: bool = False
) -> Iterator[list[tuple[int, int]]]:
    """Make one transaction of what is appended meanwhile; await nothing in it.

    Args:
        partitions: by number, all that there are.
        synced: it has to survive a power cut, whatever its partitions promise.

    Gives a list that is empty for as long as nothing of it is for the journal.
    """
    groups = journal.groups
    with groups.together() as gathered:
        begin = len(gathered)
        try:
            yield gathered
        finally:
            group = groups.last
            if synced and len(gathered) > begin:
                group.synced = True
            first_offsets: dict[int, int] = {}
            for number, offset in gathered[begin:]:
                if offset >= 0:
                    first_offsets.setdefault(number, offset)
            for number, offset in first_offsets.items():
                partition = partitions[number]
                partition.hold_back(offset)
                journal.waiters.wait(group.position, partition.committed, durable=group.synced)


def commit_together(
    journal: Journal,
    partitions: Mapping[int, CommittingPartition],
    append: Append,
    settled: Settled,
) -> int:
    """Journal what a function appends, and what will be settled, as one.

    Args:
        partitions: by number, all that there are.
        append: appends to partitions, and awaits nothing.
        settled: journaled here, nothing may be added any more; the caller settles when the position is
            durable.

    Returns:
        The journal position that has to be durable; 0: nothing of it is for the journal.

    Raises:
        JournalFailed: the disk failed before; nothing of it will be durable.
    """
    with together(journal, partitions, synced=True) as gathered:
        append()
        for each in settled:
            if each.count:
                journal.groups.append_encoded(each.content, each.count, True, True)
    return journal.groups.last.position if gathered else 0
