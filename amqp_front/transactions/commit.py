"""A tx.commit that is carried out: appended, shown, told, and settled when it is durable.

An error before all is appended leaves nothing of it, and the client is told. Behind that point it will be
durable whatever happens but a failing disk, so an error there is only logged: a client that heard of it would
send all of it again.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence

from routelog.amqp_front.consuming.settling import Settling, settled_in_turns
from routelog.amqp_front.node.services import Services
from routelog.amqp_front.transactions.commit_plan import CommitPlan
from routelog.amqp_front.wire.errors import INTERNAL_ERROR, HardError
from routelog.log_backend import (
    NOTHING,
    JournalFailed,
    Lane,
    LogTransaction,
    Receipt,
)

log = logging.getLogger(__name__)


class CommitEnd:
    """The end of a transaction that is carried out: who is told of it, and what it settles.

    Attributes:
        reached: done when it is durable, and everybody was told.

    Args:
        settlings: of deliveries that it settles or returns when it is durable; prepared.
    """

    def __init__(self, services: Services, plan: CommitPlan, settlings: Sequence[Settling]) -> None:
        self.reached = services.loop.create_future()
        self._services = services
        self._plan = plan
        self._settlings = settlings
        self._unsettled = 0  # settlings under way
        self._told: Iterator[Callable[[], object]] | None = iter(plan.told)
        self._waits = True

    def _tell(self) -> None:
        for tell in self._told or ():
            carry_out(tell)
            if self._services.scheduler.is_over():
                self._services.scheduler.call(Lane.JOBS, self._tell)
                return
        self._told = None
        self._progress()

    def _settle(self) -> None:
        for settling in self._settlings:
            if settling.are_few:
                carry_out(settling.at_once)
            else:
                settling.committed()
                self._unsettled += 1
                settled_in_turns(settling).add_done_callback(self._settled)

    def _settled(self, done: asyncio.Future[None]) -> None:
        self._unsettled -= 1
        carry_out(done.result)
        self._progress()

    def fail(self, error: Exception) -> None:
        """Nothing of it is there, or nobody knows whether it is durable: what it would settle comes back."""
        for settling in self._settlings:
            settling.failed()
        self._settle()
        if not self.reached.done():
            self.reached.set_exception(error)

    def _progress(self) -> None:
        is_over = not self._waits and self._told is None and not self._unsettled
        if is_over and not self.reached.done():
            self.reached.set_result(None)


class Commit(CommitEnd):
    """A transaction from its first append on, whether its channel is still there or not.

    Args:
        transaction: of the log; nothing is in it.
        settlings: see `CommitEnd`.

    Raises:
        Exception: of its first append; nothing has happened.
    """

    def __init__(
        self,
        services: Services,
        transaction: LogTransaction,
        plan: CommitPlan,
        settlings: Sequence[Settling],
    ) -> None:
        super().__init__(services, plan, settlings)
        self._transaction = transaction
        self._needed: Receipt = NOTHING
        self._is_appended = False
        settled = [settling.entries for settling in settlings]
        # In several turns, it publishes to no queue that looks at keys.
        leaving = [] if plan.takes_turns else [each for s in settlings for each in s.leaving()]
        try:
            transaction.append(lambda: self._append(not plan.takes_turns), settled)
            if not self._is_appended:
                transaction.pause()
        except BaseException:
            transaction.take_back()
            self._was_taken_back()
            for keys in leaving:
                keys.appended(failed=True)
            raise
        for keys in leaving:
            keys.appended(failed=False)
        if self._is_appended:
            self._appended()
            for _ in self._show():
                pass
        else:
            services.scheduler.run(self._steps(), Lane.JOBS)

    def _steps(self) -> Iterator[None]:
        while not self._is_appended:
            try:
                self._transaction.append(lambda: self._append(whole=False))
            except JournalFailed:
                self._was_taken_back()
                self.journal_failed()
                return
            except BaseException as error:  # or its channel would wait for ever
                self._was_taken_back()
                if not isinstance(error, Exception):
                    error = HardError(INTERNAL_ERROR, repr(error))
                self.fail(error)
                return
            if not self._is_appended:
                yield
        self._appended()
        for _ in self._show():
            if self._services.scheduler.is_over():
                yield

    def _append(self, whole: bool) -> None:
        self._is_appended = self._plan.carry_out(self._services.scheduler, whole=whole)

    def _was_taken_back(self) -> None:
        while self._plan.tell_some(failed=True):
            pass

    def _appended(self) -> None:
        self._transaction.end()
        for remember in self._plan.remembered:
            carry_out(remember)
        self._needed = self._transaction.needed.joined(self._plan.needed)
        self._waits = self._needed is not NOTHING
        if self._waits:
            self._services.progress.measure(self._needed)
            self._services.progress.wait(self, self._needed)
        else:
            self._settle()

    def _show(self) -> Iterator[None]:
        while self._transaction.show_some() or self._plan.tell_some():
            yield
        self._tell()

    def journal_reached(self) -> None:
        """See `Waiter`."""
        if not self._needed.is_covered():
            self._services.progress.wait(self, self._needed)
            return
        self._waits = False
        self._settle()
        self._progress()

    def journal_late(self) -> None:
        """See `Waiter`: its client is answered (`ConfirmDeadline.in_time`), and what it settles waits on."""
        self.journal_reached()

    def journal_failed(self) -> None:
        """See `Waiter`."""
        reason = "the journal failed before the transaction was durable"
        self.fail(HardError(INTERNAL_ERROR, reason))


def carry_out(step: Callable[[], object]) -> None:
    """Take a step behind the point from which a transaction is there; an error is only logged."""
    try:
        step()
    except Exception as error:  # or what comes behind it would never happen
        log.error("an error of the broker, behind a tx.commit", exc_info=error)
