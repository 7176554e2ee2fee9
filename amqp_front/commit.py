"""A tx.commit that was appended: what clients are told of it, and its wait for the journal."""

from collections.abc import Callable, Iterator, Sequence

from amqp_front.consumption import Consumption
from amqp_front.errors import INTERNAL_ERROR, HardError
from amqp_front.services import Services
from amqp_front.unacked import Taken
from log_backend import JournalPositions
from vhosts import Comeback

TURN_SECONDS = 0.001


class Commit:
    """What is left to do of a transaction, whether its channel is still there or not.

    Attributes:
        reached: done when it is durable, and everybody was told.

    Args:
        needed: position of the journal's block that holds it; 0: none does.
        taken: deliveries that it settles or returns when it is durable.
        told: called one by one, in as many turns of the loop as they take.
    """

    def __init__(
        self,
        services: Services,
        needed: int,
        consumption: Consumption,
        taken: Sequence[Taken],
        told: Sequence[Callable[[], object]],
    ) -> None:
        self.reached = services.loop.create_future()
        self._services = services
        self._needed = JournalPositions(needed, needed)
        self._consumption = consumption
        self._taken = taken
        self._told: Iterator[Callable[[], object]] | None = iter(told)
        self._waits = needed > 0
        if self._waits:
            services.confirms.wait(self, self._needed)
        else:
            self._finish()
        self._tell()

    def _tell(self) -> None:
        monotonic = self._services.clock.monotonic
        until = monotonic() + TURN_SECONDS
        assert self._told is not None
        try:
            for tell in self._told:
                tell()
                if monotonic() >= until:
                    self._services.loop.call_soon(self._tell)
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
        self._finish()
        self._progress()
        return False

    def _finish(self) -> None:
        for taken in self._taken:
            self._consumption.finish(taken)

    def journal_failed(self) -> None:
        """See `Waiter`: nobody knows whether it is durable, so nothing is settled."""
        for taken in self._taken:
            self._consumption.finish(Taken(taken.runs, Comeback.FAILED))
        reason = "the journal failed before the transaction was durable"
        self._end(HardError(INTERNAL_ERROR, reason))

    def _progress(self) -> None:
        if not self._waits and self._told is None and not self.reached.done():
            self.reached.set_result(None)

    def _end(self, error: Exception) -> None:
        if not self.reached.done():
            self.reached.set_exception(error)
