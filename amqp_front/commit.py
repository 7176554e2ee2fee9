"""A tx.commit that waits for the journal."""

from amqp_front.consumption import Consumption
from amqp_front.errors import INTERNAL_ERROR, HardError
from amqp_front.journal_positions import JournalPositions
from amqp_front.services import Services
from amqp_front.unacked import Taken
from vhosts import Comeback


class Commit:
    """What is left to do of a transaction when it is durable, whether its channel is still there or not.

    Attributes:
        reached: done when it is durable.

    Args:
        needed: position of the journal's block that holds it.
        taken: deliveries that it settles or returns.
    """

    def __init__(
        self, services: Services, needed: int, consumption: Consumption, taken: list[Taken]
    ) -> None:
        self.reached = services.loop.create_future()
        self._needed = JournalPositions(needed, needed)
        self._consumption = consumption
        self._taken = taken
        services.confirms.wait(self, self._needed)

    def journal_reached(self, reached: JournalPositions) -> bool:
        """See `Waiter`."""
        if not reached.cover(self._needed):
            return True
        for taken in self._taken:
            self._consumption.finish(taken)
        self._end(None)
        return False

    def journal_failed(self) -> None:
        """See `Waiter`: nobody knows whether it is durable, so nothing is settled."""
        for taken in self._taken:
            self._consumption.finish(Taken(taken.runs, Comeback.FAILED))
        reason = "the journal failed before the transaction was durable"
        self._end(HardError(INTERNAL_ERROR, reason))

    def _end(self, error: HardError | None) -> None:
        if self.reached.done():
            return
        if error is None:
            self.reached.set_result(None)
        else:
            self.reached.set_exception(error)
