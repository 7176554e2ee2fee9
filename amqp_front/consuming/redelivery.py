"""`basic.recover` without requeue: what is unsettled goes to its consumers once more, in order, with new tags.

It may be more than memory should hold of one client: each turn delivers some, and when the client does not
read, or a segment is read first, the connection waits.
"""

import asyncio
from collections.abc import Iterable
from typing import Protocol

from routelog.amqp_front.consuming.channel_consumer import ChannelConsumer
from routelog.amqp_front.consuming.unacked import Taken, Unacked, UnackedRun
from routelog.amqp_front.node.services import Services
from routelog.log_backend import Lane
from routelog.vhosts import Delivery, ReturnReason, delivery_cost

TURN_BYTES_MAX = 1_048_576  # as a queue's: then others have their turn
PIECE_BYTES_MAX = 262_144
PIECE_COUNT_MAX = 4_096


class RecoveringConsumption(Protocol):
    """What a redelivery needs of its channel's consumption."""

    unacked: Unacked
    next_tag: int

    @property
    def stalled(self) -> bool:
        """The client does not read what we send."""

    def redeliverable(self, run: UnackedRun) -> ChannelConsumer | None:
        """The consumer that holds some deliveries; None: it is gone, or it was a basic.get."""

    def deliver_again(self, run: UnackedRun, deliveries: Iterable[Delivery]) -> None:
        """Let go of some deliveries, and hand over what their queue made of them."""

    def finish(self, taken: Taken) -> asyncio.Future[None] | None:
        """Settle or return deliveries that were taken; None: that is done, else it is when this is."""


class Redelivery:
    """All that a channel had not settled when it was asked for, on its way again."""

    def __init__(self, consumption: RecoveringConsumption, services: Services) -> None:
        self._consumption = consumption
        self._services = services
        self._end_tag = consumption.next_tag  # what is delivered from here on is not meant
        self._waiting: asyncio.Future[None] | None = None

    def go_on(self) -> asyncio.Future[None] | None:
        """Deliver some; returns what to await before the next call, None at the end."""
        consumption, sent = self._consumption, 0
        while (run := consumption.unacked.first_below(self._end_tag)) is not None:
            if consumption.stalled:
                return self._wait()
            if sent > TURN_BYTES_MAX:
                self._services.scheduler.call(Lane.CLIENTS, self.wake)
                return self._wait()
            if consumption.redeliverable(run) is None:
                if (returned := self._return(run)) is not None:
                    return returned
                continue
            run = run.cut(run.first_tag, min(run.end_tag, run.first_tag + PIECE_COUNT_MAX))
            again = run.partition.redeliver(run.offset, run.end_offset, PIECE_BYTES_MAX, self.wake)
            if again is None:
                return self._wait()
            count, deliveries = again
            consumption.deliver_again(run.cut(run.first_tag, run.first_tag + count), deliveries)
            sent += sum(map(delivery_cost, deliveries))
        return None

    def wake(self) -> None:
        """It may go on: the client reads again, or a segment was read."""
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def _wait(self) -> asyncio.Future[None]:
        self._waiting = self._services.loop.create_future()
        return self._waiting

    def _return(self, run: UnackedRun) -> asyncio.Future[None] | None:
        taken = self._consumption.unacked.take(run.first_tag, run.end_tag - 1)
        return self._consumption.finish(Taken(taken, ReturnReason.RETURNED))
