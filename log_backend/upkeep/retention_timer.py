"""Removes segments past their retention from time to time, also in partitions where nothing happens."""

import asyncio
import logging
from collections.abc import Callable, Iterator

from routelog.log_backend.loop.scheduler import Lane, scheduler_of
from routelog.log_backend.partitions.partition_log import PartitionLog

log = logging.getLogger(__name__)


class RetentionTimer:
    """Visits all partitions that have a retention, in rounds.

    Attributes:
        partitions: the partitions to visit.

    Args:
        seconds: from the end of one round to the start of the next.
        look: called with each partition, too.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        seconds: float,
        look: Callable[[PartitionLog], None],
    ) -> None:
        self.partitions: set[PartitionLog] = set()
        self._loop = loop
        self._seconds = seconds
        self._look = look
        self._handle: asyncio.TimerHandle | None = None
        self._round: Iterator[PartitionLog] = iter(())

    def start(self) -> None:
        """Begin the first round after a pause."""
        self._handle = self._loop.call_later(self._seconds, self._begin_round)

    def stop(self) -> None:
        """Visit nothing any more."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _begin_round(self) -> None:
        self._round = iter(list(self.partitions))
        scheduler_of(self._loop).call(Lane.UPKEEP, self._visit_next)

    def _visit_next(self) -> bool:
        if self._handle is None:
            return False
        partition = next(self._round, None)
        if partition is None:
            self.start()
            return False
        try:
            partition.expire()
            self._look(partition)
        except Exception as error:  # a bug here must not end the round
            log.error("retention of %s failed", partition.directory, exc_info=error)
        return True
