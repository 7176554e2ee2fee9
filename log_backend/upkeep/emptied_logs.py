"""Emptied logs keep their newest segment for a while, although nothing in it is needed.

To create and remove a file takes the system twenty times as long as to write to an existing one. So a queue
that is emptied and filled again continues in its last segment.
"""

import asyncio
from collections.abc import Callable, Coroutine

from routelog.log_backend.loop.scheduler import Lane, in_turns
from routelog.log_backend.partitions.partition_log import PartitionLog

# A larger segment is removed at once: to create the next one takes little compared with writing it.
KEPT_BYTES_MAX = 1024 * 1024


class EmptiedLogs:
    """The logs that keep a segment in which nothing is needed.

    Args:
        seconds: between two looks; a log that got no record since the last look loses its segment.
        run: starts a task on the event loop.
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
        """Look after a pause, and then again and again."""
        self._timer = self._loop.call_later(self._seconds, self._look_later)

    def stop(self) -> None:
        """Remove segments no more."""
        if self._timer is not None:
            self._timer.cancel()

    async def let_go(self) -> None:
        """Remove these segments, and keep none from now on: the next start need not read them."""
        self._none_stays = True
        await self._remove_settled(at_once=True)

    def keeps_newest(self, log: PartitionLog) -> bool:
        """Whether a log keeps its newest segment for now, although nobody needs it."""
        newest = log.segments[-1]
        if self._none_stays or newest.size > KEPT_BYTES_MAX or not newest.is_open:
            return False
        self._next_offsets.setdefault(log)
        return True

    def forget(self, log: PartitionLog) -> None:
        """Forget a log that is closed."""
        self._next_offsets.pop(log, None)

    def press(self, pressed: bool) -> None:
        """While the disk is low (`pressed`), let no log keep such a segment."""
        self._none_stays = pressed
        if pressed and self._next_offsets:
            self._run(self._remove_settled(at_once=True))

    def _look_later(self) -> None:
        self.start()
        if self._next_offsets:
            self._run(self._remove_settled(at_once=False))

    async def _remove_settled(self, *, at_once: bool) -> None:
        async for log, seen in in_turns(list(self._next_offsets.items()), Lane.UPKEEP):
            if at_once or log.next_offset == seen:
                if log.remove_settled_segments():
                    self.forget(log)
            elif log in self._next_offsets:
                self._next_offsets[log] = log.next_offset
