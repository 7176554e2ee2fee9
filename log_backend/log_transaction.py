"""Changes of several partitions that survive a crash together, or not at all.

One block of the journal holds them, and a block is whole or no block. Until it is durable, no other file may
tell of them: their batches are not visible, so no segment has them, and what they settle is settled in memory
afterwards, so that no snapshot of a cursor knows it earlier.

What takes several turns of the event loop keeps its block open. What others append meanwhile is in it, too: an
entry of a partition is never in a later block than one behind it.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from log_backend.journal import Journal
from log_backend.settled_entries import SettledEntries

Settled = Iterable[SettledEntries]


@contextmanager
def together(journal: Journal, *, synced: bool = False) -> Iterator[None]:
    """Make one transaction of what is appended meanwhile; await nothing in it.

    Args:
        synced: it has to survive a power cut, whatever its partitions promise.
    """
    groups = journal.groups
    with groups.together():
        count = groups.last.count
        try:
            yield
        finally:
            if synced and groups.last.count > count:
                groups.last.synced = True


class LogTransaction:
    """One transaction, synced whatever its partitions promise: `append` to it, then `end` it.

    Of those that take several turns of the event loop only one can be under way: see `Journal.is_held`.

    Attributes:
        position: of the journal, that has to be durable; 0: nothing of it is for the journal so far.
    """

    def __init__(self, journal: Journal) -> None:
        self.position = 0
        self._journal = journal
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
        groups = self._journal.groups
        count = groups.last.count
        try:
            with together(self._journal, synced=True):
                append()
                for each in settled:
                    if each.count:
                        groups.append_encoded(each.content, each.count, True, True)
        except BaseException:
            self.end()
            raise
        if groups.last.count > count:
            self.position = groups.last.position

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
