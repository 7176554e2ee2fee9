"""A tx.commit that is carried out: appended, told, and settled when it is durable."""

import asyncio
from collections.abc import Callable, Iterator, Sequence

from amqp_front.commit_plan import CommitPlan
from amqp_front.errors import INTERNAL_ERROR, PRECONDITION_FAILED, HardError
from amqp_front.piecework import Piecework
from amqp_front.services import Services
from amqp_front.settling import Settling, settled_in_turns
from log_backend import JournalFailed, JournalPositions, LogTransaction

TURN_SECONDS = 0.0005


class Commit:
    """A transaction from its first append on, whether its channel is still there or not.

    Attributes:
        reached: done when it is durable, and everybody was told.

    Args:
        transaction: of the log; nothing is in it.
        settlings: of deliveries that it settles or returns when it is durable; prepared.

    Raises:
        JournalFailed: the disk failed before; nothing has happened.
    """

    def __init__(
        self,
        services: Services,
        transaction: LogTransaction,
        plan: CommitPlan,
        settlings: Sequence[Settling],
    ) -> None:
        self.reached = services.loop.create_future()
        self._services = services
        self._transaction = transaction
        self._plan = plan
        self._settlings = settlings
        self._unsettled = 0  # settlings under way
        self._needed = JournalPositions(0, 0)
        self._told: Iterator[Callable[[], object]] | None = iter(plan.told)
        self._waits = True
        self._is_appended = False
        settled = [settling.entries for settling in settlings]
        transaction.append(lambda: self._append(not plan.takes_turns), settled)
        if self._is_appended:
            self._appended()
        else:
            transaction.pause()
            Piecework(self, services)

    def go_on(self, whole: bool) -> bool:
        """Append more of it; see `Work`."""
        try:
            self._transaction.append(lambda: self._append(whole))
        except JournalFailed:
            self.journal_failed()
            return True
        except Exception as error:  # or its channel would wait for ever
            self._fail(error)
            return True
        if self._is_appended:
            self._appended()
        return self._is_appended

    def _append(self, whole: bool) -> None:
        self._is_appended = self._plan.carry_out(self._services.clock, whole=whole)

    def _appended(self) -> None:
        self._transaction.end()
        if self._plan.was_refused:
            reason = "a queue that was limited meanwhile has refused a part of the transaction"
            self._end(HardError(PRECONDITION_FAILED, reason))
        needed = max(self._transaction.position, self._plan.durable)
        self._needed = JournalPositions(needed, needed)
        self._waits = needed > 0
        if self._waits:
            self._services.confirms.wait(self, self._needed)
        else:
            self._settle()
        self._tell()

    def _tell(self) -> None:
        monotonic = self._services.clock.monotonic
        until = monotonic() + TURN_SECONDS
        assert self._told is not None
        try:
            for tell in self._told:
                tell()
                if monotonic() >= until:
                    self._services.rota.work(self._tell)
                    return
        except Exception as error:  # or its channel would wait for ever
            self._end(error)
        self._told = None
        self._progress()

    def journal_reached(self, reached: JournalPositions) -> bool:
        """See `Waiter`."""
        if not reached.cover(self._needed):
            return True
        self._waits = False
        self._settle()
        self._progress()
        return False

    def _settle(self) -> None:
        for settling in self._settlings:
            if settling.are_few:
                settling.go_on(whole=True)
            else:
                settling.committed()
                self._unsettled += 1
                settled_in_turns(settling).add_done_callback(self._settled)

    def _settled(self, done: asyncio.Future[None]) -> None:
        self._unsettled -= 1
        if (error := done.exception()) is not None:
            self._end(error)
        self._progress()

    def journal_failed(self) -> None:
        """See `Waiter`."""
        reason = "the journal failed before the transaction was durable"
        self._fail(HardError(INTERNAL_ERROR, reason))

    def _fail(self, error: Exception) -> None:
        # Nobody knows whether it is durable, so nothing is settled.
        for settling in self._settlings:
            settling.failed()
        self._settle()
        self._end(error)

    def _progress(self) -> None:
        is_over = not self._waits and self._told is None and not self._unsettled
        if is_over and not self.reached.done():
            self.reached.set_result(None)

    def _end(self, error: BaseException) -> None:
        if not self.reached.done():
            self.reached.set_exception(error)
