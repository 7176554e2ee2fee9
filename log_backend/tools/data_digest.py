"""What the data directories of stopped nodes must have in common, whatever files each node has made of it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations

from routelog.log_backend.journal.journal_block import MetadataChanges, StateChange
from routelog.log_backend.partitions.cursor import Cursor
from routelog.log_backend.partitions.declared_partition import DeclaredPartition, PartitionRecords
from routelog.log_backend.records.checksum import crc32c
from routelog.log_backend.records.record_batch import RecordBatch
from routelog.log_backend.segments.log_directory import (
    base_offsets,
    partition_directory,
    segment_path,
)
from routelog.log_backend.segments.segment_scan import read_segment, scan
from routelog.log_backend.tools.data_directory import DataDirectory
from routelog.log_backend.tools.log_verification import check_journal


@dataclass(slots=True)
class PartitionDigest:
    """The logical contents of a partition.

    Attributes:
        next_offset: behind the highest offset that the node knows of.
        unsettled: by cursor, the offsets below that, which it has not settled.
        records: by offset, checksums of all records that the node still has.
    """

    next_offset: int = 0
    unsettled: dict[int, list[int]] = field(default_factory=dict)
    records: dict[int, int] = field(default_factory=dict)

    @property
    def needed(self) -> dict[int, int | None]:
        """Checksums of the records that a reader has not settled; None: the record is missing."""
        offsets = sorted({offset for each in self.unsettled.values() for offset in each})
        return {offset: self.records.get(offset) for offset in offsets}


@dataclass(slots=True)
class DataDigest:
    """What a node has.

    Attributes:
        blocks: by position, the checksums of the blocks in its journal; what is older is in checkpoints.
        partitions: the durable ones, by vhost, queue and index.
    """

    blocks: dict[int, int]
    partitions: dict[tuple[str, str, int], PartitionDigest]

    @property
    def checksum(self) -> int:
        """One number for where the journal ends, and for what is not settled; nodes in sync have the same."""
        partitions = [
            (name, each.next_offset, sorted(each.unsettled.items()), list(each.needed.items()))
            for name, each in sorted(self.partitions.items())
        ]
        end = max(self.blocks.items(), default=(0, 0))
        checksum: int = crc32c(repr((end, partitions)).encode())
        return checksum


def data_digest(data: DataDirectory, records: PartitionRecords) -> DataDigest:
    """The digest of a node that was in sync and idle when it stopped: all its blocks were committed.

    Args:
        records: of the directory's metadata.

    Cost:
        Reads everything, and keeps a number for each record.
    """
    blocks: dict[int, int] = {}
    readings = {each.number: _Reading(data, each) for each in records.all()}
    for check in check_journal(data):
        for _, block in check.blocks:
            blocks[block.position] = block.checksum
            for entry in block.entries:
                reading = readings.get(entry.partition)
                if reading is not None and not isinstance(entry.change, MetadataChanges):
                    reading.replay(entry.change)
    partitions = (reading.digest() for reading in readings.values())
    return DataDigest(blocks, dict(partitions))


class _Reading:
    """One partition, as its snapshots and segments leave it, and then the journal."""

    def __init__(self, data: DataDirectory, declared: DeclaredPartition) -> None:
        self._declared = declared
        marks = data.marks(declared.number)
        self._digest = PartitionDigest(marks.next_offset)
        self._cursors = {number: Cursor(number, None) for number in (0, *declared.cursors)}
        stored = {each.number: each for each in marks.cursors if each.number in self._cursors}
        self._cursors |= stored
        for number, begin in declared.cursors.items():
            self._cursors[number].settle(0, begin)
        directory = partition_directory(
            data.path / "logs", declared.vhost, declared.queue, declared.index
        )
        for base in base_offsets(data.disk.list_directory(directory)):
            for stretch in scan(read_segment(data.disk, segment_path(directory, base)), base):
                if stretch.batch is not None:
                    self.replay(stretch.batch)

    def replay(self, change: RecordBatch | StateChange) -> None:
        """Carry out an entry of the journal; once more does no harm."""
        digest = self._digest
        if isinstance(change, RecordBatch):
            digest.records.update(_checksums(change))
            end = change.end_offset
        else:
            # Of a deleted group, or of no cursor: only offsets that are not given again.
            end = (self._cursors.get(change.cursor) or Cursor(0, None)).replay(change)
        digest.next_offset = max(digest.next_offset, end)

    def digest(self) -> tuple[tuple[str, str, int], PartitionDigest]:
        """Its name, and what it holds."""
        digest, declared = self._digest, self._declared
        digest.unsettled = {
            number: list(_unsettled(cursor, digest.next_offset))
            for number, cursor in self._cursors.items()
        }
        return (declared.vhost, declared.queue, declared.index), digest


def _checksums(batch: RecordBatch) -> Iterator[tuple[int, int]]:
    content = batch.records
    for at in range(batch.end_offset - batch.base_offset):
        parts = content.routing_key(at), content.properties(at), content.body(at)
        yield batch.base_offset + at, crc32c(repr(parts).encode())


def _unsettled(cursor: Cursor, end: int) -> Iterator[int]:
    offset = cursor.settled.unsettled_from(cursor.low_water)
    while offset < end:
        yield offset
        offset = cursor.settled.unsettled_from(offset + 1)


def digest_differences(digests: Mapping[str, DataDigest]) -> list[str]:
    """In which points nodes differ, by their names; none: they have the same.

    Each node removes by itself what all readers have settled, and old journal files. So blocks and settled
    records are compared where two nodes have them.
    """
    found: list[str] = []
    for (left, ours), (right, theirs) in combinations(digests.items(), 2):
        for what in _differences(ours, theirs):
            found.append(f"{left} and {right}: {what}")
    return found


def _differences(ours: DataDigest, theirs: DataDigest) -> Iterator[str]:
    ends = max(ours.blocks, default=0), max(theirs.blocks, default=0)
    if ends[0] != ends[1]:
        yield f"the journals end with blocks {ends[0]} and {ends[1]}"
    if differing := _unequal(ours.blocks, theirs.blocks):
        yield f"block {min(differing)} is not the same"
    for name in sorted(ours.partitions.keys() ^ theirs.partitions.keys()):
        yield f"only one has {_shown(name)}"
    for name in sorted(ours.partitions.keys() & theirs.partitions.keys()):
        for what in _partition_differences(ours.partitions[name], theirs.partitions[name]):
            yield f"{_shown(name)}: {what}"


def _partition_differences(ours: PartitionDigest, theirs: PartitionDigest) -> Iterator[str]:
    if ours.next_offset != theirs.next_offset:
        yield f"the next offset is {ours.next_offset} and {theirs.next_offset}"
    for cursor in sorted(ours.unsettled.keys() | theirs.unsettled.keys()):
        sides = [set(each.unsettled.get(cursor, ())) for each in (ours, theirs)]
        if differing := sides[0] ^ sides[1]:
            yield (
                f"cursor {cursor}: {len(differing)} offsets are settled on one node only, "
                f"from {min(differing)} on"
            )
    for side in (ours, theirs):
        if missing := [offset for offset, checksum in side.needed.items() if checksum is None]:
            yield f"{len(missing)} records are missing on one node, from offset {missing[0]} on"
    if different := _unequal(ours.records, theirs.records):
        yield f"{len(different)} records are not the same, from offset {min(different)} on"


def _unequal(ours: Mapping[int, int], theirs: Mapping[int, int]) -> list[int]:
    return [each for each in ours.keys() & theirs.keys() if ours[each] != theirs[each]]


def _shown(name: tuple[str, str, int]) -> str:
    vhost, queue, index = name
    return f"{vhost}: {queue} [{index}]"
