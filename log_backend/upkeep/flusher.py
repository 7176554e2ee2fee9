"""The thread that writes segments and snapshots, and deletes files, in the order of the calls."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

from routelog.log_backend.doors.ballast import Ballast
from routelog.log_backend.doors.disk import Disk
from routelog.log_backend.loop.background import log_failure
from routelog.log_backend.metadata.metadata import MetadataStore
from routelog.log_backend.segments.segment_removal import SegmentRemoval, Unneeded

_log_failure = partial(log_failure, "background work of the log failed")

P = ParamSpec("P")
T = TypeVar("T")


class Flusher(ThreadPoolExecutor):
    """One thread; `submit` and `remove` are called on the event loop only.

    Attributes:
        removal: only its `waits_for_room` may be read outside of this thread.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        disk: Disk,
        metadata: MetadataStore,
        ballast: Ballast,
    ) -> None:
        super().__init__(1, thread_name_prefix="flusher")
        self._loop = loop
        self.removal = SegmentRemoval(disk, metadata, ballast)
        # Gathered in this pass of the loop: they share one sync
        self._unneeded: list[Unneeded] = []

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Have the thread call a function.

        Removals that were asked for come first: a snapshot must not bring back the earlier begin of a log.
        """
        self.remove_unneeded()
        return super().submit(fn, *args, **kwargs)

    def do(self, work: Callable[[], object]) -> None:
        """Submit work that nobody waits for; its failure is logged."""
        self.submit(work).add_done_callback(_log_failure)

    def remove(self, unneeded: Unneeded) -> None:
        """Delete the files of a partition's oldest segments, which it no longer has."""
        if not self._unneeded:
            self._loop.call_soon(self.remove_unneeded)
        self._unneeded.append(unneeded)

    def remove_unneeded(self) -> None:
        """Remove the segments gathered so far, and try those again for which metadata had no room."""
        if self._unneeded or self.removal.waits_for_room:
            unneeded, self._unneeded = self._unneeded, []
            super().submit(self.removal.remove, unneeded).add_done_callback(_log_failure)
