"""A journal and what it tells its owner."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from support.durable_positions import tell_durable
from unit.log_backend.log_records import batch
from unit.log_backend.watched_disk import WatchedDisk

from routelog.log_backend.doors.clock import Clock, SystemClock
from routelog.log_backend.journal.journal import Journal
from routelog.log_backend.journal.journal_block import BLOCK_ALIGNMENT, Block, JournalEntry
from routelog.log_backend.journal.journal_files import JournalFile
from routelog.log_backend.journal.journal_supply import JournalSupply
from routelog.log_backend.records.record_batch import RecordBatch

FILE_BYTES = 17 * BLOCK_ALIGNMENT
SYSTEM_CLOCK = SystemClock()


class Owner:
    """What a journal tells its owner."""

    def __init__(
        self,
        directory: Path,
        disk: WatchedDisk,
        clock: Clock = SYSTEM_CLOCK,
        *,
        files_max: int = 4,
    ) -> None:
        self.disk = disk
        self.durable: list[int] = []
        self.failures: list[Exception] = []
        self.full: list[JournalFile] = []
        self.pressures: list[bool] = []
        self.to_collect: list[JournalEntry] = []
        self.executor = ThreadPoolExecutor(1)
        loop = asyncio.get_running_loop()
        supply = JournalSupply(
            directory, disk, loop, self.executor, file_bytes=FILE_BYTES, files_max=files_max
        )
        self.journal = Journal(
            supply,
            disk,
            clock,
            loop,
            on_failure=self.failures.append,
            on_file_full=self.full.append,
            collect=self._collect,
            on_pressure=self.pressures.append,
        )

    def _collect(self) -> None:
        entries, self.to_collect = self.to_collect, []
        for each in entries:
            self.journal.append(each, waited=False)

    def start(self, epoch: int = 1) -> list[Block]:
        blocks = list(self.journal.recover())
        self.journal.start(epoch)
        tell_durable(self.journal.progress, self.durable.append)
        return blocks


def entry(number: int, size: int = 1) -> JournalEntry:
    return JournalEntry(1, batch([b"x" * size], number))


def offsets(blocks: list[Block]) -> list[int]:
    changes = [entry.change for block in blocks for entry in block.entries]
    return [change.base_offset for change in changes if isinstance(change, RecordBatch)]


async def recovered(directory: Path) -> list[Block]:
    owner = Owner(directory, WatchedDisk())
    return list(owner.journal.recover())


def written_files(directory: Path) -> list[Path]:
    files = sorted(directory.glob("*.journal"))
    return [path for path in files if any(path.read_bytes()[:BLOCK_ALIGNMENT])]


def overwrite(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)
