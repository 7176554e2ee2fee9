"""Logs in which nothing is needed any more keep their newest segment for a while.

Making a file and removing it takes the system twenty times as long as writing to one that is there, so a queue
that is emptied and filled again goes on in the file that it has.
"""

import asyncio
from collections.abc import Callable, Coroutine

from routelog.log_backend.loop.scheduler import Lane, in_turns
from routelog.log_backend.partitions.partition_log import PartitionLog

# A larger segment goes at once: to write it took longer than to make the next one will.
KEPT_BYTES_MAX = 1024 * 1024


class EmptiedLogs:
    """Those that keep a segment in which nothing is needed.

    Args:
        seconds: between two looks; a log that has got nothing from one to the next loses its segment.
        run: has work done on the event loop.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        seconds: float,
        run: Callable[[Coroutine[None, None, None]], None],
    ) -> None:
        self._loop = loop
        self._seconds = seconds
        self._run = run
        self._timer: asyncio.TimerHandle | None = None
        self._none_stays = False
        self._next_offsets: dict[PartitionLog, int | None] = {}  # None: not looked at yet

    def start(self) -> None:
        """Begin to look."""
        self._timer = self._loop.call_later(self._seconds, self._look_later)

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()

    async def let_go(self) -> None:
        """Keep nothing from now on: the next start is not to read it."""
        self._none_stays = True
        await self._look(at_once=True)

    def keeps_newest(self, log: PartitionLog) -> bool:
        """Whether a log that needs none of its segments keeps the newest for now."""
        newest = log.segments[-1]
        if self._none_stays or newest.size > KEPT_BYTES_MAX or not newest.is_open:
            return False
        self._next_offsets.setdefault(log)
        return True

    def forget(self, log: PartitionLog) -> None:
        """It is closed."""
        self._next_offsets.pop(log, None)

    def press(self, pressed: bool) -> None:
        """The disk is low, or is no more: meanwhile none keeps anything."""
        self._none_stays = pressed
        if pressed and self._next_offsets:
            self._run(self._look(at_once=True))

    def _look_later(self) -> None:
        self.start()
        if self._next_offsets:
            self._run(self._look(at_once=False))

    async def _look(self, *, at_once: bool) -> None:
        async for log, seen in in_turns(list(self._next_offsets.items()), Lane.UPKEEP):
            if at_once or log.next_offset == seen:
                if log.remove_settled_segments():
                    self.forget(log)
            elif log in self._next_offsets:
                self._next_offsets[log] = log.next_offset
