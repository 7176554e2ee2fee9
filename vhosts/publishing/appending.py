# cython: annotation_typing=False
# mypy: allow-untyped-decorators, no-warn-return-any, disable-error-code="index,name-defined"
"""From a run of publishes to the ends of its queues: to few at once, to very many in several turns."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import cython

from routelog.log_backend import (
    NOTHING,
    Durability,
    Records,
    Scheduler,
)
from routelog.log_backend.journal.receipt import Progress, Receipt
from routelog.vhosts.errors import OutcomePending, PublishRefused, Untaken
from routelog.vhosts.messages.recipient import Recipient

# Records, the queues that get them, and their indexes in the run.
Batches = Iterable[tuple[Records, Iterable[Recipient], Sequence[int]]]
# What a recipient will not take of some records, their indexes in the run, and the recipient.
Outcome = tuple["asyncio.Future[Untaken]", Sequence[int], Recipient]
PAUSE: tuple[Any, tuple[()], tuple[()]] = None, (), ()  # among batches: the turn may end here
_NO_MORE: Iterator[Any] = iter(())

QUEUES_BETWEEN_LOOKS = 16  # at the clock: plain ones take 2 us each

# Compiled code reads these as C variables: a module's names it reads as slowly as Python does.
_DISK = Durability.DISK  # a look-up in the enum takes 0.07 us
_QUEUES_BETWEEN_LOOKS = cython.declare(cython.Py_ssize_t, QUEUES_BETWEEN_LOOKS)


@cython.final
@cython.cclass
class Appending:
    """The batches of one run, given to their queues one after the other.

    Attributes:
        is_under_way: the turn had no time for all of them: see `go_on`.
        refused: indexes in the run of what full queues did not take, with the first of these queues.
        returned: indexes in the run of what no queue gets, as another node said.
        outcomes: of recipients that will say later what they do not take: see `learn_outcomes`.
        indexes: in the run, of the records that are given to queues.
        behind: the queue that all of it went to, if its consumers are to catch up; see `Dispatcher`.
        queues: how many were given a batch since `begin`.
        routed: messages that were given to queues since `begin`, once for each.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._is_over = scheduler.is_over
        self._batches: Iterator[tuple[Records, Iterable[Recipient], Sequence[int]]] = _NO_MORE
        self._to: Iterator[Recipient] = iter(())
        self._records: Any = None
        self.indexes: Sequence[int] = ()
        self._waited = False
        self._progress: Progress | None = None  # of the queue that was given a batch last
        self._written = self._durable = 0  # there
        self._others: Receipt = NOTHING  # of queues whose positions are of other journals
        self.is_under_way = False
        self.behind: Recipient | None = None
        self.refused: dict[int, Recipient] = {}
        self.returned: list[int] = []
        self.outcomes: list[Outcome] = []
        self.queues = 0
        self.routed = 0

    @cython.ccall
    @cython.locals(waited=cython.bint)
    def begin(self, waited: bool) -> None:
        """Count anew.

        Args:
            waited: somebody waits until it is as safe as its queues promise.
        """
        self._waited = waited
        self.outcomes.clear()
        self.queues = 0
        self.routed = 0
        self.behind = None

    @cython.ccall
    @cython.locals(whole=cython.bint)
    def append(self, batches: Batches, whole: bool) -> Receipt:
        """Append batches, one after the other.

        Args:
            whole: all of them in this turn; otherwise `is_under_way` tells.

        Returns:
            What the confirm of those waits for that were appended.

        Raises:
            JournalFailed: the disk failed before.
        """
        self._batches = iter(batches)
        self._to = _NO_MORE
        self._written, self._durable, self._others = 0, 0, NOTHING
        receipt: Receipt = self._go(whole, False)
        return receipt

    @cython.ccall
    def append_run(
        self, records: Records, to: Iterable[Recipient], indexes: Sequence[int]
    ) -> Receipt:
        """As `append`, of one batch, and not necessarily all of it in this turn."""
        self._batches = _NO_MORE
        self._records, self._to, self.indexes = records, iter(to), indexes
        self._written, self._durable, self._others = 0, 0, NOTHING
        receipt: Receipt = self._go(False, False)
        return receipt

    def go_on(self) -> Receipt:
        """Append more of what is under way, in another turn; a queue that is deleted meanwhile gets nothing.

        Returns, Raises: see `append`.
        """
        receipt: Receipt = self._go(False, True)
        return receipt

    def learn_outcomes(self) -> bool:
        """Take over what was refused and returned; returns whether all recipients have said it."""
        if not all(outcome.done() for outcome, *_ in self.outcomes):
            return False
        outcomes, self.outcomes = self.outcomes, []
        for outcome, indexes, queue in outcomes:
            untaken = outcome.result()
            for at in untaken.refused:
                self.refused.setdefault(indexes[at], queue)
            self.returned += [indexes[at] for at in untaken.returned]
        return True

    @cython.cfunc
    @cython.locals(
        whole=cython.bint,
        resumed=cython.bint,
        waited=cython.bint,
        progress=Progress,
        written=cython.longlong,
        durable=cython.longlong,
        position=cython.longlong,
        queues=cython.Py_ssize_t,
        count=cython.Py_ssize_t,
    )
    def _go(self, whole: bool, resumed: bool) -> Receipt:
        progress, written, durable = self._progress, self._written, self._durable
        waited, queues = self._waited, self.queues
        self.is_under_way = False
        while True:
            records, count = self._records, len(self.indexes)
            for queue in self._to:
                if resumed and queue.deleted:
                    continue
                try:
                    position = queue.publish(records, waited)
                except PublishRefused as refused:
                    position = refused.position
                    for at in refused.refused:
                        self.refused.setdefault(self.indexes[at], queue)
                except OutcomePending as pending:
                    position = pending.position
                    self.outcomes.append((pending.untaken, self.indexes, queue))
                if position:
                    if queue.progress is not progress:
                        if progress is not None and (written or durable):
                            self._others = self._others.joined(progress.receipt(written, durable))
                        progress, written, durable = queue.progress, 0, 0
                    # What is durable is written, too.
                    if position > durable:
                        if queue.durability is _DISK:
                            durable = position
                        elif position > written:
                            written = position
                queues += 1
                self.routed += count
                self.behind = queue if queues == 1 and queue.is_behind else None
                if queues % _QUEUES_BETWEEN_LOOKS or whole:
                    continue
                if self._is_over():
                    self.is_under_way = True
                    break
            if self.is_under_way:
                break
            following = next(self._batches, None)
            if following is None:
                self._records = None  # its buffer may be large
                break
            self._records, to, self.indexes = following
            self._to = iter(to)
            if self._records is None and not whole and self._is_over():
                self.is_under_way = True
                break
        self.queues = queues
        self._progress, self._written, self._durable = progress, written, durable
        if progress is None or not (written or durable):
            return self._others
        return progress.receipt(written, durable).joined(self._others)
