"""A run of publishes on its way to very many queues: in as many turns of the event loop as it takes.

RabbitMQ gives a message to its queues one after the other, too: some have it while others do not yet. What is
under way arrives at all of them, whether its channel is still there or not, but at none that is deleted
meanwhile.
"""

import asyncio
from typing import Protocol


class OnItsWay(Protocol):
    """What was published, and what its publisher has to be told."""

    def go_on(self, whole: bool) -> bool:
        """Append as much as a turn is to bear, or all that is left; returns whether it was all.

        Raises:
            JournalFailed: the disk failed before, and nobody waits for a confirm.
        """


class FanOut:
    """One run.

    Attributes:
        arrived: done when all queues have it.
    """

    def __init__(
        self, run: OnItsWay, under_way: "FanOuts", loop: asyncio.AbstractEventLoop
    ) -> None:
        self.arrived = loop.create_future()
        self._run = run
        self._under_way = under_way
        self._loop = loop
        under_way.add(self)
        loop.call_soon(self._turn)

    def finish(self) -> None:
        """Let it arrive in this turn: the broker stops."""
        self._go_on(True)

    def _turn(self) -> None:
        if not self.arrived.done():
            self._go_on(False)

    def _go_on(self, whole: bool) -> None:
        try:
            if self._run.go_on(whole):
                self._under_way.discard(self)
                self.arrived.set_result(None)
            else:
                self._loop.call_soon(self._turn)
        except Exception as error:  # or its channel would wait for ever
            self._under_way.discard(self)
            self.arrived.set_exception(error)


FanOuts = set[FanOut]
