"""Work on the event loop that nobody waits for."""

import asyncio
import logging

log = logging.getLogger(__name__)


class Background:
    """Tasks that their owner waits for at its end; the log tells of those that fail.

    Attributes:
        tasks: those that have not ended.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.tasks: set[asyncio.Task[None]] = set()

    def run(self, work: "asyncio._CoroutineLike[None]") -> None:
        """Begin a task."""
        task = self._loop.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        task.add_done_callback(_report)

    async def ended(self) -> None:
        """Wait for all that were begun."""
        await asyncio.gather(*self.tasks, return_exceptions=True)


def _report(task: "asyncio.Task[None]") -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("background work of the log failed", exc_info=error)
