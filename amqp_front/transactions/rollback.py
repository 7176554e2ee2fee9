"""tx.rollback: the deliveries that its transaction had taken are unsettled again, in the order of their tags.

Very many take several turns of the event loop. Until the last one the channel knows no tags but those of what
is delivered meanwhile; its connection carries out nothing.
"""

import asyncio
from collections.abc import Iterable, Sequence
from itertools import chain

from routelog.amqp_front.consuming.tag_order import TagOrder
from routelog.amqp_front.consuming.unacked import Unacked, UnackedRun
from routelog.amqp_front.node.services import Services
from routelog.amqp_front.node.work import begun
from routelog.log_backend import PIECE_SECONDS, Clock


class Rollback:
    """One under way; see `Work`."""

    def __init__(self, unacked: Unacked, taken: Sequence[list[UnackedRun]], clock: Clock) -> None:
        self._unacked = unacked
        self._clock = clock
        self._order = TagOrder([*taken, unacked.take_all()])

    def go_on(self, whole: bool) -> bool:
        """See `Work`."""
        if whole:
            self._unacked.put_back(chain.from_iterable(self._order.take_all()))
            return True
        until = self._clock.monotonic() + PIECE_SECONDS
        while self._order.step():
            if self._clock.monotonic() >= until:
                return False
        self._unacked.put_below(self._order.ordered)
        self._order = TagOrder(())
        return True

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
    rollback = Rollback(unacked, lists, services.clock)
    return rollback, begun(rollback, services.scheduler)
