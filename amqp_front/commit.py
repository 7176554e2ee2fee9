"""A tx.commit that was appended: what clients are told of it, and its wait for the journal."""

import asyncio
from collections.abc import Callable, Iterator, Sequence

from amqp_front.errors import INTERNAL_ERROR, HardError
from amqp_front.services import Services
from amqp_front.settling import Settling, settled_in_turns
from log_backend import JournalPositions

TURN_SECONDS = 0.001


class Commit:
    """What is left to do of a transaction, whether its channel is still there or not.

    Attributes:
        reached: done when it is durable, and everybody was told.

    Args:
        needed: position of the journal's block that holds it; 0: none does.
        settlings: of deliveries that it settles or returns when it is durable.
        told: called one by one, in as many turns of the loop as they take.
    """

    def __init__(
        self,
        services: Services,
        needed: int,
        settlings: Sequence[Settling],
        told: Sequence[Callable[[], object]],
    ) -> None:
        self.reached = services.loop.create_future()
        self._services = services
        self._needed = JournalPositions(needed, needed)
        self._settlings = settlings
        self._unsettled = 0  # settlings under way
        self._told: Iterator[Callable[[], object]] | None = iter(told)
        self._waits = needed > 0
        if self._waits:
            services.confirms.wait(self, self._needed)
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
        """See `Waiter`: nobody knows whether it is durable, so nothing is settled."""
        for settling in self._settlings:
            settling.failed()
        self._settle()
        reason = "the journal failed before the transaction was durable"
        self._end(HardError(INTERNAL_ERROR, reason))

    def _progress(self) -> None:
        is_over = not self._waits and self._told is None and not self._unsettled
        if is_over and not self.reached.done():
            self.reached.set_result(None)

    def _end(self, error: BaseException) -> None:
        if not self.reached.done():
            self.reached.set_exception(error)
