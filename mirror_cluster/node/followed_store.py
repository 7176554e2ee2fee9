"""A log store that follows another node: its journal as a replica's storage, and what applies its blocks."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from routelog.log_backend import (
    BlockApplier,
    Disk,
    FollowedDefinitions,
    JournalExtent,
    Lane,
    LogStore,
    PartitionRecords,
    ShardBlock,
    decode_entries,
    scheduler_of,
)
from routelog.mirror_cluster.node.copy_receiver import CopyReceiver
from routelog.mirror_cluster.node.journal_storage import JournalStorage, KeptPromise
from routelog.mirror_cluster.protocol.shard_record import SHARD
from routelog.mirror_cluster.standalone import epoch_alone


class FollowedStore:
    """Applies the blocks of another node to a log store.

    Attributes:
        storage: of the journal; `open` has to come before it is used.

    Args:
        logs: open, and has recovered nothing.
        data: its directory.
        keep_aside, failed: see `JournalStorage`.
    """

    def __init__(
        self,
        logs: LogStore,
        data: Path,
        disk: Disk,
        incarnation: int,
        receiver: CopyReceiver,
        keep_aside: Callable[[Sequence[ShardBlock]], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._logs = logs
        self.storage = JournalStorage(
            SHARD,
            incarnation,
            logs.journal,
            KeptPromise(data, disk),
            self._apply,
            lambda: "memory" not in logs.pressures.reasons,
            keep_aside,
            failed,
        )
        self.storage.receiver = receiver

    async def open(
        self, records: PartitionRecords, definitions: FollowedDefinitions | None = None
    ) -> None:
        """Recover, and follow.

        Args:
            records: of the store's metadata.
            definitions: not loaded; None: nobody here asks for them.

        Raises:
            JournalDamaged, MetadataCorrupt, UnknownEntry, OSError: the data cannot be used.
        """
        logs, storage = self._logs, self.storage
        scheduler = scheduler_of(asyncio.get_running_loop())
        logs.pressures.on_change = lambda _: scheduler.call(Lane.UPKEEP, storage.apply_more)
        committed = JournalExtent(logs.metadata).committed
        storage.alone = epoch_alone(logs.metadata)
        marks = logs.journal.replicate(SHARD, storage, committed, storage.alone)
        logs.recover_metadata()
        if definitions is not None:
            await definitions.load()
        self._follower = BlockApplier(logs, records, definitions=definitions)
        logs.journal.follow()
        await storage.open(marks)

    def _apply(self, block: ShardBlock) -> None:
        self._follower.apply(block.position, decode_entries(block.payload))
