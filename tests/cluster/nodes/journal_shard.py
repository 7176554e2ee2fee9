"""A shard whose storage is the broker's journal, with texts in batches as a queue would have them."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from unit.log_backend.log_records import batch, bodies_of

from routelog.log_backend import ShardBlock, SystemClock, SystemDisk
from routelog.log_backend.journal.journal import Journal
from routelog.log_backend.journal.journal_block import Block as StoredBlock
from routelog.log_backend.journal.journal_block import JournalEntry, decode_entries
from routelog.log_backend.journal.journal_supply import JournalSupply
from routelog.log_backend.records.record_batch import RecordBatch
from routelog.mirror_cluster.node.incarnation import read_incarnation
from routelog.mirror_cluster.node.journal_storage import JournalStorage, KeptPromise

FILE_BYTES = 8 * 1024 * 1024
FILES_MAX = 64  # nothing takes them back: there is no checkpoint here


class JournalShard(JournalStorage):
    """See `FileStorage`, which has the same attributes."""

    def __init__(
        self,
        shard: int,
        directory: Path,
        applied: Callable[[int], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        disk = SystemDisk()
        disk.make_directory(directory / "journal")
        loop = asyncio.get_running_loop()
        supply = JournalSupply(
            directory / "journal",
            disk,
            loop,
            ThreadPoolExecutor(1),
            file_bytes=FILE_BYTES,
            files_max=FILES_MAX,
        )
        self.journal = Journal(
            supply,
            disk,
            SystemClock(),
            loop,
            on_failure=failed,
            on_file_full=lambda file: None,
            collect=lambda: None,
            on_pressure=lambda is_high: None,
        )
        self.shard = shard
        self.epoch = 0
        self.committed: dict[int, ShardBlock | StoredBlock] = {}
        self._made: dict[int, ShardBlock] = {}
        self._texts = 0
        self._applied = applied
        super().__init__(
            shard,
            read_incarnation(directory, disk),
            self.journal,
            KeptPromise(directory, disk),
            self._carry_out,
            lambda: True,
            lambda blocks: None,
            failed,
        )

    async def prepare(self) -> None:
        """Recover, and follow."""
        marks = self.journal.replicate(self.shard, self)
        for block in self.journal.recover():
            self.committed[block.mark.position] = block
        self.journal.follow()
        await self.open(marks)

    def append(self, text: bytes) -> int:
        """Publish; the position of the block that has it."""
        self._texts += 1
        return self.journal.append(JournalEntry(1, batch([text], self._texts)), waited=True)

    def begin_epoch(self, epoch: int) -> None:
        """See `JournalStorage`."""
        self.epoch = epoch
        super().begin_epoch(epoch)

    def on_block(self, block: ShardBlock) -> None:
        """See `ReplicaEvents`."""
        self._made[block.position] = block
        super().on_block(block)

    def commit(self, position: int) -> None:
        """See `JournalStorage`."""
        super().commit(position)
        for each in [each for each in self._made if each <= position]:
            self._carry_out(self._made.pop(each))
        self._applied(position)

    def _carry_out(self, block: ShardBlock) -> None:
        assert block.position == len(self.committed) + 1
        self.committed[block.position] = block

    def texts(self, block: ShardBlock) -> list[str]:
        """What a block says."""
        changes = [entry.change for entry in decode_entries(block.payload)]
        batches = [change for change in changes if isinstance(change, RecordBatch)]
        return [body.decode() for each in batches for body in bodies_of(each)]
