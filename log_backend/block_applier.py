"""Applies the blocks of another node's journal to a store: a recovery that does not end.

The blocks of the leader's journal are carried out one after the other, by the code of recovery. Meanwhile the
store writes segments, takes checkpoints and removes files as any other. But it settles nothing by itself and
adds nothing to its journal: the leader does both.

Definitions in memory are kept up with the same changes. To lead, the store is started as ever. What
`open_partition` is asked for is open already.
"""

from collections.abc import Iterable, Mapping, Sequence

from routelog.log_backend.journal.journal_block import MetadataChanges
from routelog.log_backend.journal.journal_entry import JournalEntry
from routelog.log_backend.journal.journal_extent import JournalExtent
from routelog.log_backend.log_store import LogStore
from routelog.log_backend.partitions.declared_partition import (
    DeclaredPartition,
    FollowedDefinitions,
    PartitionRecords,
)
from routelog.log_backend.partitions.partition_log import forget_changes


class BlockApplier:
    """Carries out a leader's blocks in a store that has recovered its metadata, and nothing else.

    What the store's own journal has committed is carried out at once.

    Attributes:
        applied: position of the last block that was carried out, its definitions included.

    Args:
        records: of the store's metadata.
        definitions: loaded; kept up, too. None: nobody here asks for them.
    """

    def __init__(
        self,
        store: LogStore,
        records: PartitionRecords,
        definitions: FollowedDefinitions | None = None,
    ) -> None:
        self._store = store
        self._records = records
        self._definitions = definitions
        for partition in records.all():
            self._open(partition, partition.cursors)
        store.recover()
        self._metadata_applied = JournalExtent(store.metadata).applied
        self.applied = store.journal.committed
        store.follow()
        forget_changes(store.checkpoints.with_state)

    def apply(self, position: int, entries: Sequence[JournalEntry]) -> None:
        """Carry out a block that is committed, and durable here; the next one is one position higher.

        What was carried out before may come once more, in its order. Memory grows by what segments do not have
        yet: the caller waits while `LogStore.pressures` has a reason.

        Args:
            position, entries: of the block.

        Raises:
            MetadataUnavailable: a write has failed; the node must stop.
        """
        store = self._store
        if position > self._metadata_applied:
            self._change_metadata(position, entries)
        touched = set(store.recovery.carry_out(entries, store.partitions))
        for partition in touched:
            store.recovery.skip_lost(partition)
            partition.release()
        forget_changes(store.checkpoints.with_state)
        self.applied = position

    def _change_metadata(self, position: int, entries: Sequence[JournalEntry]) -> None:
        # As in recovery before the records of the block: these are of partitions that it declares.
        found = [each.change for each in entries if isinstance(each.change, MetadataChanges)]
        changes = [change for each in found for change in each.changes]
        if not changes:
            return
        store = self._store
        if self._definitions is not None:
            self._definitions.apply(changes)
        keys = list(dict.fromkeys(each.key for each in changes))
        before = _by_number(self._records.of(keys))
        store.metadata.apply([*changes, JournalExtent.applied_change(position)], synced=False)
        self._metadata_applied = position
        after = _by_number(self._records.of(keys))
        gone = [store.partitions[n] for n in before if n not in after and n in store.partitions]
        if gone:
            store.close_partitions(*gone)
            store.remove_files(*gone)
        for number, partition in after.items():
            if number not in store.partitions:
                self._open(partition, {})
            else:
                opened = store.partitions[number]
                store.change_partition(opened, partition.retention, partition.compression)
            self._change_cursors(partition)

    def _open(self, partition: DeclaredPartition, cursors: Mapping[int, int]) -> None:
        self._store.open_partition(
            partition.number,
            partition.vhost,
            partition.queue,
            partition.index,
            durable=True,
            retention=partition.retention,
            compression=partition.compression,
            cursors=cursors,
        )

    def _change_cursors(self, partition: DeclaredPartition) -> None:
        opened = self._store.partitions[partition.number]
        wanted = partition.cursors
        for number in [each for each in opened.cursors if each and each not in wanted]:
            opened.close_cursor(number)
        begins = {number: wanted[number] for number in wanted if number not in opened.cursors}
        self._store.recovery.begin_cursors(opened, begins)


def _by_number(partitions: Iterable[DeclaredPartition]) -> dict[int, DeclaredPartition]:
    return {each.number: each for each in partitions}
