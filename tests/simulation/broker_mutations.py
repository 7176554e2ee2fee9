"""Rules of what a broker keeps beside its journal, each switched off on purpose; see `mutations`."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from unittest.mock import patch

from routelog.log_backend import PartitionLog, Schedule, ShardBlock
from routelog.log_backend.copies import copies
from routelog.log_backend.journal.block_writer import BlockWriter, PlacedGroup
from routelog.log_backend.journal.journal import Journal
from routelog.log_backend.journal.metadata_writer import MetadataWriter
from routelog.log_backend.metadata.metadata import Change
from routelog.log_backend.recovery import Recovery
from routelog.log_backend.upkeep import checkpoints
from routelog.log_backend.upkeep.partition_snapshot import Snapshot, store_snapshots
from routelog.mirror_cluster.node.journal_storage import JournalStorage
from routelog.vhosts.definitions.node_definitions import NodeDefinitions
from routelog.vhosts.publishing.internal_publish import InternalPublish
from routelog.vhosts.rules.unique_keys import UniqueKeys
from routelog.vhosts.vhost import hosted_queues

Patch = tuple[Any, str, Any]
NOWHERE = 2**63 - 1

_SCHEDULE = Schedule.__init__
_REPLICATE = Journal.replicate
_SUBMIT = MetadataWriter.submit
_STORE = JournalStorage.store
_STORE_SNAPSHOTS = store_snapshots
_ENCODE = BlockWriter.encode


def _schedules_all(
    self: Schedule,
    number: int,
    store: Any,
    ends: Sequence[int],
    committed_end: Callable[[int], int],
    *more: Any,
) -> None:
    _SCHEDULE(self, number, store, ends, lambda part: NOWHERE, *more)


async def _is_told(self: Journal) -> bool:
    return True


def _settles_later(self: InternalPublish) -> None:
    first, self._settled_end = self._settled_end, self._at
    if self._settle is not None and first < self._at:
        settle = partial(self._settle, range(first, self._at), self.posted)
        self._ways.logs.journal.when_committed(settle)


def _notes_no_ends(self: Journal, *arguments: Any) -> Any:
    marks = _REPLICATE(self, *arguments)
    self.groups.is_replicated = False
    return marks


def _applies_at_once(self: MetadataWriter, changes: Sequence[Change]) -> Any:
    applied = _SUBMIT(self, changes)
    with patch.object(MetadataWriter, "_is_behind", lambda self: bool(self._submitted)):
        self._go_on()
    return applied


def _applies_what_is_stored(self: JournalStorage, blocks: Sequence[ShardBlock]) -> None:
    _STORE(self, blocks)
    for block in blocks:
        self._apply(block)


def _applies_what_is_cut(self: JournalStorage, position: int, keep: bool) -> None:
    self._journal.truncate(position)


def _calls_more_committed(metadata: Any, committed: int, *more: Any) -> None:
    _STORE_SNAPSHOTS(metadata, committed + 3, *more)


def _calls_itself_committed(self: BlockWriter, placed: PlacedGroup) -> bytearray:
    return _ENCODE(self, placed._replace(committed=placed.group.position))


def _copies_none_that_leave(partition: PartitionLog) -> Any:
    newest = partition.segments[-1] if partition.segments else None
    size = newest.written_size if newest is not None else 0
    return copies._Log(partition.directory, tuple(partition.segments), size)


async def _loads_nothing(self: UniqueKeys) -> None:
    pass


def _skips_nothing(self: Recovery, partition: PartitionLog) -> None:
    pass


async def _forgets_nothing(self: NodeDefinitions) -> Sequence[Change]:
    return ()


BROKER_MUTATIONS: dict[str, list[Patch]] = {
    "a schedule is told of what is not committed": [(Schedule, "__init__", _schedules_all)],
    "a move is two blocks": [(InternalPublish, "_settle_some", _settles_later)],
    "a checkpoint does not wait until what it tells of is committed": [(Journal, "told", _is_told)],
    "what a checkpoint that was given up had taken is forgotten": [
        (Snapshot, "behind", lambda self, earlier: self)
    ],
    "a checkpoint calls more committed than is": [
        (checkpoints, "store_snapshots", _calls_more_committed)
    ],
    "a block calls itself committed": [(BlockWriter, "encode", _calls_itself_committed)],
    "a flush goes on behind what is visible": [
        (PartitionLog, "visible_end", property(lambda self: self.next_offset))
    ],
    "a copy has no segment that is about to go": [(copies, "_log", _copies_none_that_leave)],
    "metadata change before their block is committed": [
        (MetadataWriter, "submit", _applies_at_once)
    ],
    "nobody notes where records end that are not in the journal": [
        (Journal, "replicate", _notes_no_ends)
    ],
    "a follower carries out what is only stored": [
        (JournalStorage, "store", _applies_what_is_stored)
    ],
    "definitions of a follower stay as it has loaded them": [
        (NodeDefinitions, "apply", lambda self, changes: None)
    ],
    "what is not durable stays when another node leads": [
        (NodeDefinitions, "forget_transient", _forgets_nothing)
    ],
    "what is cut is carried out": [(JournalStorage, "truncate", _applies_what_is_cut)],
    "a follower passes over no offset that is lost": [(Recovery, "skip_lost", _skips_nothing)],
    "what an exchange has seen is in memory only": [
        (hosted_queues, "remembers_in_log", lambda exchange: False)
    ],
    "the keys in a queue are not read at a start": [(UniqueKeys, "load", _loads_nothing)],
}
