"""Looks for segments past their retention, also in partitions where nothing happens."""

import asyncio
import logging
from collections.abc import Iterator
from itertools import islice

from routelog.log_backend.partitions.partition_log import PartitionLog

log = logging.getLogger(__name__)

PARTITIONS_MAX = 256  # of one turn of the loop: below 1 ms when nothing is due


class RetentionTimer:
    """Goes round the partitions that have a retention.

    Attributes:
        partitions: those to look at.

    Args:
        seconds: from the end of one round to the next.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        self.partitions: set[PartitionLog] = set()
        self._loop = loop
        self._seconds = seconds
        self._handle: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin the first round after a pause."""
        self._handle = self._loop.call_later(self._seconds, self._round)

    def stop(self) -> None:
        """Look at nothing any more."""
        if self._handle is not None:
            self._handle.cancel()

    def _round(self) -> None:
        self._turn(iter(list(self.partitions)))

    def _turn(self, left: Iterator[PartitionLog]) -> None:
        looked_at = 0
        for partition in islice(left, PARTITIONS_MAX):
            looked_at += 1
            try:
                partition.expire()
            except Exception as error:  # a fault of ours: the others go on
                log.error("retention of %s failed", partition.directory, exc_info=error)
        if looked_at < PARTITIONS_MAX:
            self.start()
        else:
            self._handle = self._loop.call_later(0, self._turn, left)
