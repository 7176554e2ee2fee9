"""Where changes of metadata become durable: the journal takes them, and then the metadata store follows.

The journal decides. A change is an entry there, and what is answered waits until its block is synced. Then the
store carries it out, without a sync: what it loses in a power cut, recovery carries out again
(`LogStore.recover_metadata`). With the last change of each block the store is told, in the same batch, how far
it has come (`JournalExtent.applied`).
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeVar

from routelog.log_backend.journal.journal import Journal, JournalFailed
from routelog.log_backend.journal.journal_entry import JournalEntry
from routelog.log_backend.journal.journal_extent import JournalExtent
from routelog.log_backend.journal.metadata_changes import OF_NO_PARTITION, MetadataChanges
from routelog.log_backend.journal.receipt import NOTHING, Receipt
from routelog.log_backend.metadata.metadata import (
    FIRST_FREE_KEY,
    Change,
    MetadataStore,
    MetadataUnavailable,
)

log = logging.getLogger(__name__)

_Value = TypeVar("_Value")

RESOLVED_MAX = 8  # submissions of one turn of the loop: whoever waits for one does 100 us of work


@dataclass(frozen=True, slots=True)
class _Submission:
    position: int  # of its block
    changes: Sequence[Change]
    applied: asyncio.Future[int]


@dataclass(frozen=True, slots=True)
class _Answer:
    group: Sequence[_Submission]
    error: Exception | None
    gate: asyncio.Future[int] | None  # it waits for this


class MetadataWriter:
    """Takes changes of metadata in the order in which they are submitted; used on the loop only.

    The store is written on the loop, too: its engine holds Python's lock meanwhile, so a thread would only add
    its own change. Nobody limits how much gathers but the journal: its pressure closes the clients' gate.

    Attributes:
        barrier: called with the position of changes that are durable, and that the store has; returns what
            their answers, and all behind them, wait for beside that, or None. A journal that fails meanwhile,
            or a close, answers them with an error. None: nothing else has to have them.
        on_applied: called with changes that are durable, and that the store has, before `barrier`.
        known: returns what an answer waits for that tells of what was durable before, or None.
    """

    def __init__(
        self, journal: Journal, store: MetadataStore, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._journal = journal
        self._store = store
        self._loop = loop
        self._submitted: deque[_Submission] = deque()  # not told yet
        self._turn: asyncio.Handle | None = None  # in which the next ones are carried out
        self._refusal: MetadataUnavailable | None = None  # of what comes
        # What the journal does not have, it will never have
        self._loss: MetadataUnavailable | None = None
        self._has_lost = False  # something was answered so
        self._behind: list[asyncio.Future[None]] = []  # resolved when the store is not behind
        self.barrier: Callable[[int], asyncio.Future[int] | None] | None = None
        self.on_applied: Callable[[Sequence[Change]], None] | None = None
        self.known: Callable[[], asyncio.Future[int] | None] = lambda: None
        self._answers: deque[_Answer] = deque()  # that wait for a barrier, or for one before them
        self._answering: asyncio.Handle | None = None  # the turn of the next one

    def submit(self, changes: Sequence[Change]) -> asyncio.Future[int]:
        """Add changes that belong together to the journal.

        Returns:
            Resolves to their position in the journal once they are durable there, the store has them and
            `barrier` lets them, or raises `MetadataUnavailable` (they may come back after a restart).
            Cancelling it does not take the changes back.

        Raises:
            MetadataUnavailable: stopped, or a write or sync has failed; nothing was added.

        Guarantees:
            All of them survive a crash, or none; futures are resolved in the order of submission.
        """
        self.check()
        changes = tuple(changes)
        if any(each.key < FIRST_FREE_KEY for each in changes):
            raise ValueError(f"a key of {changes} belongs to the store")
        entry = JournalEntry(OF_NO_PARTITION, MetadataChanges(changes))
        try:
            position = self._journal.append(entry, waited=True)
        except JournalFailed as error:
            raise MetadataUnavailable(str(error)) from None
        if not self._submitted or self._submitted[-1].position != position:
            self._journal.progress.receipt(0, position).when_covered(self._go_on)
        submission = _Submission(position, changes, self._loop.create_future())
        self._submitted.append(submission)
        return submission.applied

    @property
    def receipt(self) -> Receipt:
        """What waits until all that was submitted is durable."""
        if not self._submitted:
            return NOTHING
        return self._journal.progress.receipt(0, self._submitted[-1].position)

    def check(self) -> None:
        """See whether anything can be submitted.

        Raises:
            MetadataUnavailable: stopped, or a write or sync has failed.
        """
        if self._refusal is not None:
            raise MetadataUnavailable(str(self._refusal))

    async def applied(self) -> None:
        """Wait until the store has all that is durable in the journal, or has failed."""
        if self._is_behind():
            caught_up = self._loop.create_future()
            self._behind.append(caught_up)
            await caught_up

    def stop(self) -> None:
        """Refuse further submissions; what was submitted goes on."""
        if self._refusal is None:
            self._refusal = MetadataUnavailable("the metadata writer is closed")

    def failed(self, error: Exception) -> None:
        """The journal takes no more: what it does not have durably is answered with an error."""
        self._loss = MetadataUnavailable(str(error))
        if self._refusal is None:
            self._refusal = self._loss
        self._go_on()
        self._go_on_answering()

    def close(self) -> None:
        """Carry out what is durable in the journal, and answer the rest with an error."""
        self.stop()
        self._loss = self._loss or self._refusal
        while self._submitted:
            self._carry_on()
        while self._answers:
            self._answer()

    def _is_behind(self) -> bool:
        if self._has_lost or not self._submitted:
            return False
        return self._submitted[0].position <= self._journal.committed

    def _go_on(self) -> None:
        if self._turn is None:
            self._carry_on()

    def _carry_on(self) -> None:
        # Some thousand waiters at once would hold the loop, as would letting go of them.
        group = deque[_Submission]()
        while self._is_behind() and len(group) < RESOLVED_MAX:
            group.append(self._submitted.popleft())
        error: Exception | None = None
        if group:
            error = self._apply(group)
        elif self._loss is not None:
            # Nothing behind it is carried out either, though the journal may get some yet: a start does that.
            error, self._has_lost = self._loss, True
            while self._submitted and len(group) < RESOLVED_MAX:
                group.append(self._submitted.popleft())
        if group:
            self._answer_behind(group, error)
        is_due = self._is_behind() or (self._loss is not None and self._submitted)
        self._turn = self._loop.call_soon(self._carry_on) if is_due else None
        if not self._is_behind():
            for caught_up in self._behind:
                if not caught_up.done():
                    caught_up.set_result(None)
            self._behind.clear()

    def _answer_behind(self, group: Sequence[_Submission], error: Exception | None) -> None:
        gate = None
        if self.barrier is not None and error is None:
            gate = self.barrier(group[-1].position)
        if gate is None and not self._answers:
            _tell(group, error)
            return
        self._answers.append(_Answer(group, error, gate))
        if gate is not None:
            gate.add_done_callback(self._go_on_answering)
        self._go_on_answering()

    def _go_on_answering(self, _: object = None) -> None:
        if self._answering is None and self._may_answer():
            self._answer()

    def _may_answer(self) -> bool:
        gate = self._answers[0].gate if self._answers else None
        return bool(self._answers) and (gate is None or gate.done() or self._loss is not None)

    def _answer(self) -> None:
        if self._may_answer():
            answer = self._answers.popleft()
            _tell(answer.group, answer.error or self._loss)
        self._answering = self._loop.call_soon(self._answer) if self._may_answer() else None

    def _apply(self, group: deque[_Submission]) -> Exception | None:
        following = self._submitted[0].position if self._submitted else None
        try:
            self._store.apply_each(list(_batches(group, following)))
        except Exception as error:
            if self._refusal is None:
                self._refusal = MetadataUnavailable(str(error))
                log.error("%s; changes of topology are refused until a restart", error)
            return error
        if self.on_applied is not None:
            self.on_applied([change for each in group for change in each.changes])
        return None


def _batches(group: Sequence[_Submission], following: int | None) -> Iterator[Sequence[Change]]:
    # The store says that it has a block with its last change, or a crash before that would leave some out.
    positions = [*(each.position for each in group), following]
    for each, (position, behind) in zip(group, pairwise(positions), strict=True):
        if position == behind:
            yield each.changes
        else:
            yield (*each.changes, JournalExtent.applied_change(each.position))


def _tell(group: Sequence[_Submission], error: Exception | None) -> None:
    for each in group:
        if each.applied.done():  # its waiter was cancelled
            continue
        if error is None:
            each.applied.set_result(each.position)
            continue
        each.applied.set_exception(error)
        if isinstance(error, MetadataUnavailable):
            unawaited(each.applied)


def unawaited(change: asyncio.Future[_Value]) -> asyncio.Future[_Value]:
    """Nobody need wait for this change: the writer tells of its failure. Whoever waits gets it all the same."""
    change.add_done_callback(_retrieve)
    return change


def _retrieve(change: asyncio.Future[Any]) -> None:
    error = None if change.cancelled() else change.exception()
    if error is not None and not isinstance(error, MetadataUnavailable):
        log.error("a change of the topology failed", exc_info=error)
