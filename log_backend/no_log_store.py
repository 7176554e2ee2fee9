"""What stands for the log store in a process without one."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

from routelog.log_backend.doors.clock import Clock
from routelog.log_backend.doors.disk import Disk
from routelog.log_backend.journal.journal_groups import JournalGroups
from routelog.log_backend.journal.metadata_writer import MetadataWriter
from routelog.log_backend.journal.receipt import Progress
from routelog.log_backend.log_store import LogStore
from routelog.log_backend.partitions.log_intake import LogIntake
from routelog.log_backend.upkeep.disk_pressure import Pressures
from routelog.log_backend.upkeep.disk_space import DiskSpace
from routelog.log_backend.upkeep.memory_watch import MemoryWatch


class NoLogStore(LogStore):
    """The store of a front whose queues another process has: time, and a count of memory.

    It has no thread, and nothing is written. Changes of metadata are refused, and there are no
    logs to be opened: whoever has queues does both.

    Args:
        data: directory of the process that has queues.
        memory_bytes: see `LogOptions.memory_tail_bytes`.
        has_remote: see `LogStore`.
    """

    def __init__(
        self,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        disk: Disk,
        data: Path,
        memory_bytes: int,
        *,
        has_remote: bool,
    ) -> None:
        nobody: Any = None
        self.clock = clock
        self.has_remote = has_remote
        self.pressures = Pressures()
        self.progress = Progress(loop.call_soon, clock.monotonic)
        groups = JournalGroups(lambda waited: None, lambda pressed: None)  # which gather nothing
        self.intake = LogIntake(groups, memory_bytes, lambda size: None, lambda batches: None)
        self.memory = MemoryWatch(
            self.intake, memory_bytes, partial(self.pressures.press, "memory")
        )
        self.metadata_writer = MetadataWriter(nobody, nobody, loop)
        self.metadata_writer.stop()
        self.space = DiskSpace(
            data, disk, loop, 0, nobody, promised=lambda: 0, on_look=lambda: None
        )  # at which nobody looks
        self.copies = nobody

    @property
    def bytes_in_memory(self) -> int:
        """See `LogStore`."""
        return self.memory.bytes

    async def aclose(self) -> None:
        """See `LogStore`: there is nothing to be closed."""
