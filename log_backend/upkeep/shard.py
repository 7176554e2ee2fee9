"""A shard: one journal, and the partitions whose changes it has."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from routelog.log_backend.doors.clock import Clock
from routelog.log_backend.doors.disk import Disk
from routelog.log_backend.journal.journal import Journal
from routelog.log_backend.journal.metadata_writer import MetadataWriter
from routelog.log_backend.metadata.metadata import MetadataStore
from routelog.log_backend.partitions.log_intake import LogIntake
from routelog.log_backend.partitions.partition_log import PartitionLog
from routelog.log_backend.upkeep.disk_space import DiskSpace
from routelog.log_backend.upkeep.flusher import Flusher
from routelog.log_backend.upkeep.memory_watch import MemoryWatch


@dataclass(frozen=True, slots=True)
class Shard:
    """What the journal, the partitions and their upkeep share, as the store has made it.

    Attributes:
        data: the store's directory.
        partitions: by number; they come and go.
        intake, memory: of all partitions.
        space: of the file system with the data.
    """

    data: Path
    disk: Disk
    clock: Clock
    loop: asyncio.AbstractEventLoop
    partitions: Mapping[int, PartitionLog]
    journal: Journal
    metadata: MetadataStore
    metadata_writer: MetadataWriter
    intake: LogIntake
    memory: MemoryWatch
    space: DiskSpace
    flusher: Flusher
