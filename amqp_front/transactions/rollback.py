"""tx.rollback: the deliveries that its transaction had taken are unsettled again, in the order of their tags.

Very many take several turns of the event loop. Until the last one the channel knows no tags but those of what
is delivered meanwhile; its connection carries out nothing.
"""

import asyncio
from collections.abc import Iterable, Iterator, Sequence

from routelog.amqp_front.consuming.tag_order import TagOrder
from routelog.amqp_front.consuming.unacked import Unacked, UnackedRun
from routelog.amqp_front.node.services import Services
from routelog.log_backend import Lane, Scheduler


class Rollback:
    """One under way."""

    def __init__(self, unacked: Unacked, taken: Sequence[list[UnackedRun]]) -> None:
        self._unacked = unacked
        self._order = TagOrder([*taken, unacked.take_all()])

    def steps(self, scheduler: Scheduler) -> Iterator[None]:
        """Put all of them back; it yields when the turn is over."""
        while self._order.step():
            if scheduler.is_over():
                yield
        self._unacked.put_below(self._order.ordered)
        self._order = TagOrder(())

    def take_all(self) -> list[list[UnackedRun]]:
        """What is not back, in no order: nothing comes back any more."""
        return self._order.take_all()


def rolled_back(
    unacked: Unacked, taken: Iterable[list[UnackedRun]], services: Services
) -> tuple[Rollback, asyncio.Future[None]] | None:
    """Begin to put deliveries back; None: all are back, else they are when it is done."""
    lists = list(taken)
    if unacked.put_back_few(lists):
        return None
    rollback, scheduler = Rollback(unacked, lists), services.scheduler
    return rollback, scheduler.run(rollback.steps(scheduler), Lane.JOBS)
