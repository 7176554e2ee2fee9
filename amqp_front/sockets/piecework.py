"""Work that takes the event loop several turns: others have theirs in between.

A run of publishes on its way to very many queues: RabbitMQ gives a message to its queues one after the other,
too, so some have it while others do not yet. An acknowledgement of very many deliveries that are no neighbours.

What is under way is done to its end, whether the channel that began it is still there or not.
"""

import asyncio
from typing import Protocol

from routelog.amqp_front.sockets.rota import Rota


class Work(Protocol):
    """What is done piece by piece."""

    def go_on(self, whole: bool) -> bool:
        """Do as much as a turn is to bear, or all that is left; returns whether it was all.

        Raises:
            JournalFailed: the disk failed before, and nobody waits for a confirm.
        """


class PieceworkServices(Protocol):
    """What of a broker's services it needs."""

    loop: asyncio.AbstractEventLoop
    rota: Rota
    piecework: "set[Piecework]"


class Piecework:
    """One work under way.

    Attributes:
        done: when all of it is.
    """

    def __init__(self, work: Work, services: PieceworkServices) -> None:
        self.done = services.loop.create_future()
        self._work = work
        self._services = services
        services.piecework.add(self)
        services.rota.work(self._turn)

    def finish(self) -> None:
        """Do what is left in this turn: the broker stops."""
        self._go_on(True)

    def _turn(self) -> None:
        if not self.done.done():
            self._go_on(False)

    def _go_on(self, whole: bool) -> None:
        try:
            if self._work.go_on(whole):
                self._services.piecework.discard(self)
                self.done.set_result(None)
            else:
                self._services.rota.work(self._turn)
        except Exception as error:  # or its channel would wait for ever
            self._services.piecework.discard(self)
            self.done.set_exception(error)
