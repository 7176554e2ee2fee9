# cython: annotation_typing=False
# mypy: allow-untyped-decorators, no-warn-return-any, disable-error-code="index,name-defined"
"""From a run of publishes to the ends of its queues: to few at once, to very many in several turns."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import cython

from routelog.log_backend import (
    NOTHING,
    Durability,
    JournalPositions,
    Records,
    Scheduler,
)
from routelog.vhosts.errors import PublishRefused
from routelog.vhosts.messages.recipient import Recipient

# Records, the queues that get them, and their indexes in the run.
Batches = Iterable[tuple[Records, Iterable[Recipient], Sequence[int]]]
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
        refused: indexes in the run of what a full queue did not take.
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
        self._written = self._durable = 0
        self.is_under_way = False
        self.behind: Recipient | None = None
        self.refused: set[int] = set()
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
        self.queues = 0
        self.routed = 0
        self.behind = None

    @cython.ccall
    @cython.locals(whole=cython.bint)
    def append(self, batches: Batches, whole: bool) -> JournalPositions:
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
        self._written = self._durable = 0
        positions: JournalPositions = self._go(whole, False)
        return positions

    @cython.ccall
    def append_run(
        self, records: Records, to: Iterable[Recipient], indexes: Sequence[int]
    ) -> JournalPositions:
        """As `append`, of one batch, and not necessarily all of it in this turn."""
        self._batches = _NO_MORE
        self._records, self._to, self.indexes = records, iter(to), indexes
        self._written = self._durable = 0
        positions: JournalPositions = self._go(False, False)
        return positions

    def go_on(self) -> JournalPositions:
        """Append more of what is under way, in another turn; a queue that is deleted meanwhile gets nothing.

        Returns, Raises: see `append`.
        """
        positions: JournalPositions = self._go(False, True)
        return positions

    @cython.cfunc
    @cython.locals(
        whole=cython.bint,
        resumed=cython.bint,
        waited=cython.bint,
        written=cython.longlong,
        durable=cython.longlong,
        position=cython.longlong,
        queues=cython.Py_ssize_t,
        count=cython.Py_ssize_t,
    )
    def _go(self, whole: bool, resumed: bool) -> JournalPositions:
        written, durable, waited = self._written, self._durable, self._waited
        self.is_under_way = False
        queues = self.queues
        while True:
            records, count = self._records, len(self.indexes)
            for queue in self._to:
                if resumed and queue.deleted:
                    continue
                try:
                    position = queue.publish(records, waited)
                except PublishRefused as refused:
                    position = refused.position
                    self.refused.update([self.indexes[at] for at in refused.refused])
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
                self.queues = queues
                if self._is_over():
                    return self._stopped(written, durable)
            following = next(self._batches, None)
            if following is None:
                break
            self._records, to, self.indexes = following
            self._to = iter(to)
            self.queues = queues
            if self._records is None and not whole and self._is_over():
                return self._stopped(written, durable)
        self.queues = queues
        self._records = None  # its buffer may be large
        return NOTHING if not (written or durable) else JournalPositions(written, durable)

    @cython.cfunc
    @cython.locals(written=cython.longlong, durable=cython.longlong)
    def _stopped(self, written: int, durable: int) -> JournalPositions:
        self._written, self._durable = written, durable
        self.is_under_way = True
        return JournalPositions(written, durable)
