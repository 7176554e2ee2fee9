"""The thread that writes segments and snapshots, and deletes files: one thing after the other."""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from routelog.log_backend.doors.ballast import Ballast
from routelog.log_backend.doors.disk import Disk
from routelog.log_backend.metadata.metadata import MetadataStore
from routelog.log_backend.partitions.partition_log import PartitionLog
from routelog.log_backend.segments.first_kept import first_kept_change
from routelog.log_backend.segments.segment import Segment
from routelog.log_backend.segments.segment_removal import SegmentRemoval, Unneeded

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")


class Flusher(ThreadPoolExecutor):
    """Does what is submitted, in order; `submit` and `remove` are called on the event loop only.

    Attributes:
        removal: only used in its thread, but for `waits_for_room`.
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
        self._unneeded: list[Unneeded] = []  # in this turn of the loop: they share a sync

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """See `Executor`.

        Behind the removals so far: a snapshot must not say again that a log begins where it did.
        """
        self.remove_unneeded()
        return super().submit(fn, *args, **kwargs)

    def do(self, work: Callable[[], None]) -> None:
        """Submit work that nobody waits for; the log tells of its failure."""
        self.submit(work).add_done_callback(_report)

    def remove(self, partition: PartitionLog, segments: list[Segment]) -> None:
        """Delete the files of a partition's oldest segments, which it has let go."""
        change = None
        if partition.durable and partition.first_kept_moved():
            change = first_kept_change(partition.number, partition.first_kept)
        if not self._unneeded:
            self._loop.call_soon(self.remove_unneeded)
        self._unneeded.append(Unneeded(partition.directory, segments, change))

    def remove_unneeded(self) -> None:
        """Remove what was let go, and try again what has found no room."""
        if self._unneeded or self.removal.waits_for_room:
            unneeded, self._unneeded = self._unneeded, []
            super().submit(self.removal.remove, unneeded).add_done_callback(_report)


def _report(future: Future[None]) -> None:
    if not future.cancelled() and (error := future.exception()) is not None:
        log.error("background work of the log failed", exc_info=error)
