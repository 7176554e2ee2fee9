"""Changes of several partitions that survive a crash together, or not at all.

One block of the journal holds them, and a block is whole or no block. Until it is durable, no other file may
tell of them: their batches stay out of segments, and what they settle is settled in memory afterwards, so that
no snapshot of a cursor knows it earlier.

What takes several turns of the event loop keeps its block open. What others append meanwhile is in it, too: an
entry of a partition is never in a later block than one behind it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

from log_backend.journal import Journal
from log_backend.settled_entries import SettledEntries

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


class LogTransaction:
    """One transaction, synced whatever its partitions promise: `append` to it, then `end` it.

    Of those that take several turns of the event loop only one can be under way: see `Journal.is_held`.

    Attributes:
        position: of the journal, that has to be durable; 0: nothing of it is for the journal so far.

    Args:
        partitions: by number, all that there are.
    """

    def __init__(self, journal: Journal, partitions: Mapping[int, CommittingPartition]) -> None:
        self.position = 0
        self._journal = journal
        self._partitions = partitions
        self._holds = False

    def append(self, append: Callable[[], object], settled: Settled = ()) -> None:
        """Add what a function appends, and what will be settled; an error ends the transaction.

        Args:
            append: appends to partitions, and awaits nothing.
            settled: journaled here, nothing may be added any more; the caller settles when `position` is
                durable.

        Raises:
            JournalFailed: the disk failed before; nothing of it will be durable.
        """
        try:
            with together(self._journal, self._partitions, synced=True) as gathered:
                append()
                for each in settled:
                    if each.count:
                        self._journal.groups.append_encoded(each.content, each.count, True, True)
        except BaseException:
            self.end()
            raise
        if gathered:
            self.position = self._journal.groups.last.position

    def pause(self) -> None:
        """Let the rest of it come in other turns."""
        if not self._holds:
            self._holds = True
            self._journal.hold()

    def end(self) -> None:
        """All of it has been appended."""
        if self._holds:
            self._holds = False
            self._journal.let_go()
