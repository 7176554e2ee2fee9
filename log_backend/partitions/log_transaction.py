"""Changes of several partitions that survive a crash together, or not at all.

One block of the journal holds them, and a block is whole or no block. Until it is durable, no other file may
tell of them: their batches are not visible, so no segment has them, and what they settle is settled in memory
afterwards, so that no snapshot of a cursor knows it earlier.

What takes several turns of the event loop keeps its block open. What others append meanwhile is in it, too: an
entry of a partition is never in a later block than one behind it. Until all is appended nobody is handed any of
it, nor what comes behind it in its partitions (`LogEnd.ready_end`): an error in any step takes back all steps.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from routelog.log_backend.journal.journal import Journal
from routelog.log_backend.journal.journal_groups import GroupEnd
from routelog.log_backend.partitions.log_intake import LogIntake
from routelog.log_backend.partitions.settled_entries import SettledEntries
from routelog.log_backend.records.record_batch import RecordBatch

Settled = Iterable[SettledEntries]

SHOWN_AT_ONCE = 64  # batches between two looks at the clock: 0.1 us each


class CommittingPartition(Protocol):
    """What a transaction needs of a partition that it writes to."""

    def show(self, batch: RecordBatch) -> None:
        """See `LogEnd`."""

    def take_back(self, batches: Sequence[RecordBatch]) -> None:
        """See `PartitionLog`."""


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
    """One transaction, synced whatever its partitions promise: `append` to it, `end` it, show it.

    Of those that take several turns of the event loop only one can be under way: see `LogIntake`.

    Attributes:
        position: of the journal, that has to be durable; 0: nothing of it is for the journal so far.
    """

    def __init__(self, journal: Journal, intake: LogIntake) -> None:
        self.position = 0
        self._journal = journal
        self._intake = intake
        self._appended: list[Any] = []  # see `LogIntake`
        self._shown = 0  # of these
        self._steps: list[
            tuple[GroupEnd, GroupEnd]
        ] = []  # what each has put into the journal's group
        self._holds = self._takes_turns = False

    def append(self, append: Callable[[], object], settled: Settled = ()) -> None:
        """Add what a function appends, and what will be settled; an error takes back the transaction.

        Args:
            append: appends to partitions, and awaits nothing.
            settled: journaled here, nothing may be added any more; the caller settles when `position` is
                durable.

        Raises:
            JournalFailed: the disk failed before; nothing of it will be durable.
        """
        groups = self._journal.groups
        begin = groups.end
        count = groups.last.count
        self._intake.appended = self._appended
        try:
            with together(self._journal, synced=True):
                append()
                for each in settled:
                    if each.count:
                        groups.append_encoded(each.content, each.count, True, True)
        except BaseException:
            self._steps.append((begin, groups.end))
            self.take_back()
            raise
        finally:
            self._intake.appended = None
        self._steps.append((begin, groups.end))
        if groups.last.count > count:
            self.position = groups.last.position

    def pause(self) -> None:
        """Let the rest of it come in other turns."""
        if not self._holds:
            self._journal.hold()
            self._holds = self._takes_turns = self._intake.is_committing = True

    def end(self) -> None:
        """All of it has been appended: it will be durable as a whole."""
        self._steps = []
        if self._holds:
            self._holds = False
            self._journal.let_go()

    def show_some(self) -> bool:
        """Let some of what it appended be handed out, when it has ended; returns whether there is more."""
        appended, first = self._appended, self._shown
        end = self._shown = min(first + 2 * SHOWN_AT_ONCE, len(appended))
        for at in range(first, end, 2):
            appended[at].show(appended[at + 1])
        if end < len(appended):
            return True
        self._appended, self._shown = [], 0
        self._turns_ended()
        return False

    def take_back(self) -> None:
        """End it as if nothing had been appended, and show nothing; does nothing when that was done.

        What others appended meanwhile stays, at its offsets; of those in front nobody has heard.
        """
        try:
            self._journal.groups.take_back(self._steps)
            for log, batches in self._batches().items():
                log.take_back(batches)
        except BaseException as error:  # or a part of it would be durable
            cause = error if isinstance(error, Exception) else RuntimeError(repr(error))
            self._journal.stop(cause)
            raise
        finally:
            self.position, self._appended = 0, []
            self._turns_ended()
            self.end()

    def _turns_ended(self) -> None:
        if self._takes_turns:
            self._takes_turns = self._intake.is_committing = False

    def _batches(self) -> dict[CommittingPartition, list[RecordBatch]]:
        batches: dict[CommittingPartition, list[RecordBatch]] = {}
        for at in range(0, len(self._appended), 2):
            batches.setdefault(self._appended[at], []).append(self._appended[at + 1])
        return batches
