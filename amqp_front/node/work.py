"""Work that takes the event loop several turns: others have theirs in between.

A run of publishes on its way to very many queues: RabbitMQ gives a message to its queues one after the other,
too, so some have it while others do not yet. An acknowledgement of very many deliveries that are no neighbours.

What is under way is done to its end, whether the channel that began it is still there or not.
"""

import asyncio
from collections.abc import Iterator
from typing import Protocol

from routelog.log_backend import Lane, Scheduler


class Work(Protocol):
    """What is done piece by piece."""

    def go_on(self, whole: bool) -> bool:
        """Do as much as a turn is to bear, or all that is left; returns whether it was all.

        Raises:
            JournalFailed: the disk failed before, and nobody waits for a confirm.
        """


def begun(work: Work, scheduler: Scheduler) -> "asyncio.Future[None]":
    """Begin a work in one of the next turns; returns what is done when all of it is, with its error if any."""
    return scheduler.run(_pieces(work), Lane.JOBS)


def _pieces(work: Work) -> Iterator[None]:
    while not work.go_on(False):
        yield
