"""Transactions: changes of several partitions that survive a crash together, or not at all.

One block of the journal holds all changes, and a torn block is ignored as a whole. Until the block is durable,
no other file may contain any of them. The batches are not visible yet, so they are not written to segments; and
the settlements are applied in memory only afterwards, so no cursor's snapshot contains them.

A transaction that takes several turns of the event loop keeps its block open. The block then also holds what
others append meanwhile, because the entries of a partition must stand in the journal in their order. Until
everything is appended, none of it is delivered, nor anything behind it in its partitions (`LogEnd.ready_end`):
an error in any step takes back all steps.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from routelog.log_backend.journal.journal import Journal
from routelog.log_backend.journal.journal_groups import GroupEnd
from routelog.log_backend.journal.receipt import Receipt
from routelog.log_backend.partitions.log_intake import LogIntake
from routelog.log_backend.partitions.partition_log import PartitionLog
from routelog.log_backend.partitions.settled_entries import SettledEntries
from routelog.log_backend.records.record_batch import RecordBatch

Settled = Iterable[SettledEntries]

SHOWN_AT_ONCE = 64  # batches of one call of `show_some`: 0.1 us each


@contextmanager
def together(journal: Journal, *, synced: bool = False) -> Iterator[None]:
    """Make one transaction of all that is appended in the `with` block, which must not await.

    Args:
        synced: it survives a power cut, even if its partitions promise less.
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
    """One transaction, always synced: `append` to it, `end` it, then `show_some` until all is shown.

    Only one transaction of several turns may be under way: see `LogIntake.is_committing`.

    Attributes:
        position: journal position that must become durable; 0: it has nothing in the journal yet.
    """

    def __init__(self, journal: Journal, intake: LogIntake) -> None:
        self.position = 0
        self._journal = journal
        self._intake = intake
        self._appended: list[Any] = []  # see `LogIntake`
        self._shown = 0  # entries of `_appended` that are shown
        # Where the journal's group can be cut: before and after each step.
        self._steps: list[tuple[GroupEnd, GroupEnd]] = []
        self._holds = self._takes_turns = False

    def append(self, append: Callable[[], object], settled: Settled = ()) -> None:
        """Run one step: append records, and journal settlements; an error takes back the transaction.

        Args:
            append: appends to partitions.
            settled: must not change any more; the caller settles when `position` is durable.

        Raises:
            JournalFailed: the disk failed before; nothing of the transaction will be durable.
        """
        groups = self._journal.groups
        begin = groups.cut_point()
        count = groups.last.count
        self._intake.appended = self._appended
        try:
            with together(self._journal, synced=True):
                append()
                for each in settled:
                    if each.count:
                        groups.append_encoded(each.content, each.count, True, True)
        except BaseException:
            self._steps.append((begin, groups.cut_point()))
            self.take_back()
            raise
        finally:
            self._intake.appended = None
        self._steps.append((begin, groups.cut_point()))
        if groups.last.count > count:
            self.position = groups.last.position

    def pause(self) -> None:
        """Keep the journal's block open: further steps follow in other turns of the loop."""
        if not self._holds:
            self._journal.hold()
            self._holds = self._takes_turns = self._intake.is_committing = True

    def end(self) -> None:
        """All steps are done: let the journal write the block."""
        self._steps = []
        if self._holds:
            self._holds = False
            self._journal.let_go()

    @property
    def needed(self) -> Receipt:
        """Covered when all of it is durable."""
        needed: Receipt = self._journal.progress.receipt(self.position, self.position)
        return needed

    def show_some(self) -> bool:
        """After `end`, let some of the appended batches be delivered; returns whether there are more."""
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
        """End the transaction as if nothing had been appended; a second call does nothing.

        Batches that others appended meanwhile keep their offsets. The offsets that are given up were not
        shown to anybody.
        """
        try:
            self._journal.groups.take_back(self._steps)
            for log, batches in self._batches().items():
                log.take_back(batches)
        except BaseException as error:  # a part of the transaction must not become durable
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

    def _batches(self) -> dict[PartitionLog, list[RecordBatch]]:
        batches: dict[PartitionLog, list[RecordBatch]] = {}
        for at in range(0, len(self._appended), 2):
            batches.setdefault(self._appended[at], []).append(self._appended[at + 1])
        return batches
