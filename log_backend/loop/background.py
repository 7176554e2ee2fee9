"""Work in the background, whose failure is logged because nobody awaits its result."""

import asyncio
import logging
from concurrent.futures import Future
from functools import partial
from typing import Any

log = logging.getLogger(__name__)


def log_failure(what: str, work: Future[Any] | asyncio.Future[Any]) -> None:
    """Log the error that ended some work, if one did; for `add_done_callback`."""
    if not work.cancelled() and (error := work.exception()) is not None:
        log.error("%s", what, exc_info=error)


class Background:
    """Tasks that their owner awaits when it stops; failures are logged.

    Attributes:
        tasks: those that have not ended.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.tasks: set[asyncio.Task[None]] = set()

    def run(self, work: "asyncio._CoroutineLike[None]") -> None:
        """Start a task."""
        task = self._loop.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        task.add_done_callback(partial(log_failure, "background work of the log failed"))

    async def ended(self) -> None:
        """Wait for all tasks."""
        await asyncio.gather(*self.tasks, return_exceptions=True)
