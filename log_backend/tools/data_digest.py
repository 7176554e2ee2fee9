"""The digest of a node's data: what other nodes must have, too, whatever files each has made of it.

Each node removes by itself what all readers have settled, and old files of the journal. So blocks and settled
records are in one digest and not in another; what no reader has settled is in all. Records that were not
journaled, as those of transient messages, are in none: only the node has them that gave them their offsets.
"""

import heapq
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import msgspec

from routelog.log_backend.journal.journal_block import (
    NO_CURSOR,
    HandedOut,
    MetadataChanges,
    StateChange,
    decode_entries,
)
from routelog.log_backend.journal.journal_chain import ShardBlock
from routelog.log_backend.journal.journal_entry import JournalEntry
from routelog.log_backend.journal.journal_extent import JournalExtent
from routelog.log_backend.metadata.metadata import Change
from routelog.log_backend.partitions.cursor import Cursor
from routelog.log_backend.partitions.declared_partition import DeclaredPartition, PartitionRecords
from routelog.log_backend.records.checksum import crc32c
from routelog.log_backend.records.record_batch import PERSISTENT, RecordBatch
from routelog.log_backend.segments.damage import merged_ranges, without_ranges
from routelog.log_backend.segments.first_kept import kept_names, load_first_kept
from routelog.log_backend.segments.log_directory import is_compacted, partition_directory
from routelog.log_backend.segments.partition_file import read_number
from routelog.log_backend.segments.segment_forms import current_segments
from routelog.log_backend.segments.segment_scan import Stretch, read_segment, scan
from routelog.log_backend.settlement.settled import SettledSet
from routelog.log_backend.tools.data_directory import DataDirectory
from routelog.log_backend.tools.digest_format import (
    CHUNK,
    Blocks,
    DigestEnd,
    PartitionName,
    PartitionState,
    Piece,
    Records,
)
from routelog.log_backend.tools.log_verification import check_journal

Ranges = list[tuple[int, int]]


class _Journaled:
    """What the journal says of one partition.

    Attributes:
        given_end: behind the last offset that it says was given to a record that is not journaled.
    """

    def __init__(self) -> None:
        self.offsets = array("Q")
        self.checksums = array("I")
        self.changes: list[StateChange] = []
        self.given_end = 0

    def add(self, change: StateChange) -> None:
        """A change that is no batch."""
        self.changes.append(change)
        if isinstance(change, HandedOut) and change.cursor == NO_CURSOR:
            self.given_end = max(self.given_end, change.end)

    def lacks(self, first: int) -> Iterator[tuple[int, int]]:
        """Ranges of offsets that it has no record of, from one on up to `given_end`."""
        for offset in self.offsets:
            if first < min(offset, self.given_end):
                yield first, min(offset, self.given_end)
            first = max(first, offset + 1)
        if first < self.given_end:
            yield first, self.given_end


class JournalContent:
    """What a journal says, read once.

    Attributes:
        blocks: checksums by position, with that of the block before the first.
        changes: what is in it of metadata that the directory's do not have yet, to be applied first.

    Args:
        behind: blocks that follow those of the directory.
        progress: called with the bytes read.
    """

    def __init__(
        self,
        data: DataDirectory,
        behind: Iterable[ShardBlock] = (),
        progress: Callable[[int], None] = lambda size: None,
    ) -> None:
        extent = JournalExtent(data.metadata)
        before, self._applied = extent.beginning.before, extent.applied
        self.blocks = {before.position: before.checksum} if before.position else dict[int, int]()
        self.changes: list[Change] = []
        self._journaled: dict[int, _Journaled] = {}
        for check in check_journal(data):
            for _, block in check.blocks:
                self._add(block.position, block.checksum, block.entries)
            progress(check.bytes)
        for each in behind:
            self._add(each.position, each.checksum, decode_entries(each.payload))

    @property
    def end(self) -> tuple[int, int]:
        """Position and checksum of the last block."""
        return max(self.blocks.items(), default=(0, 0))

    def of(self, partition: int) -> _Journaled:
        """What it says of a partition, by its number."""
        return self._journaled.get(partition) or _Journaled()

    def _add(self, position: int, checksum: int, entries: Iterable[JournalEntry]) -> None:
        self.blocks[position] = checksum
        changes: list[Change] = []
        for entry in entries:
            change = entry.change
            if isinstance(change, MetadataChanges):
                changes += change.changes
                continue
            journaled = self._journaled.setdefault(entry.partition, _Journaled())
            if isinstance(change, RecordBatch):
                for offset, each in _checksums(change):
                    journaled.offsets.append(offset)
                    journaled.checksums.append(each)
            else:
                journaled.add(change)
        if changes and position > self._applied:
            self.changes += [*changes, JournalExtent.applied_change(position)]


def digest_pieces(
    data: DataDirectory,
    records: PartitionRecords,
    journal: JournalContent,
    progress: Callable[[int], None] = lambda size: None,
) -> Iterator[Piece]:
    """The digest of a data directory, up to the end of its journal.

    Args:
        records: of the directory's metadata, with the journal's changes of them.

    Cost:
        Reads all segments; has one of them in memory.
    """
    for chunk, positions in groupby(sorted(journal.blocks), _chunk):
        yield Blocks(chunk, {each: journal.blocks[each] for each in positions})
    checksum = _chained(0, journal.end)
    partitions = count = 0
    for declared in sorted(records.all(), key=_name):
        partitions += 1
        digest = _PartitionDigest(data, declared, journal.of(declared.number), progress)
        for piece in digest.records():
            count += len(piece.checksums)
            needed = [
                (offset, piece.checksums[offset])
                for offset in _within(digest.needed, piece.chunk)
                if offset in piece.checksums
            ]
            checksum = _chained(checksum, needed) if needed else checksum
            yield piece
        yield digest.state
        checksum = _chained(checksum, digest.state)
    yield DigestEnd(journal.end[0], checksum, len(journal.blocks), partitions, count)


class _PartitionDigest:
    """One partition, as its snapshots and segments leave it, and then the journal.

    Attributes:
        needed: ranges of offsets that some cursor has not settled; without those that were given to records
            which are not journaled, as far as the journal tells.
    """

    def __init__(
        self,
        data: DataDirectory,
        declared: DeclaredPartition,
        journaled: _Journaled,
        progress: Callable[[int], None],
    ) -> None:
        self._data = data
        self._name = _name(declared)
        self._is_stream = declared.retention is not None and declared.retention.is_stream
        self._is_journaled = declared.journaled
        self._transient: Ranges = []  # stored here, and not journaled
        self._journaled = journaled
        self._progress = progress
        self._directory = partition_directory(
            data.path / "logs", declared.vhost, declared.queue, declared.index
        )
        first_kept = load_first_kept(data.metadata, declared.number)
        names = kept_names(data.disk.list_directory(self._directory), first_kept)
        # Else they are of a deleted queue of the same name.
        is_own = read_number(data.disk, self._directory) in (None, declared.number)
        self._paths = current_segments(data.disk, self._directory, names) if is_own else {}
        marks = data.marks(declared.number)
        cursors = {number: Cursor(number, None) for number in (0, *declared.cursors)}
        cursors |= {each.number: each for each in marks.cursors if each.number in cursors}
        for number, begin in declared.cursors.items():
            cursors[number].settle(0, begin)
        end = marks.next_offset
        if journaled.offsets:
            end = max(end, journaled.offsets[-1] + 1)
        for change in journaled.changes:
            # Of a deleted group, or of no cursor: only offsets that are not given again.
            end = max(end, (cursors.get(change.cursor) or Cursor(0, None)).replay(change))
        self._end = end
        # What is needed and in no synced segment is in the journal, but for these. A follower settles them.
        lost = list(journaled.lacks(marks.synced_offset)) if declared.journaled else [(0, end)]
        self._unsettled = {
            number: without_ranges(list(_unsettled(cursor.settled, end)), lost)
            for number, cursor in sorted(cursors.items())
        }
        self.needed = merged_ranges(
            [each for ranges in self._unsettled.values() for each in ranges]
        )
        # Each node compacts its own segments: what one has taken below this, another may still have.
        compacted = [each for each, path in self._paths.items() if is_compacted(path)]
        behind = [base for base in self._paths if base > max(compacted, default=-1)]
        compacted_end = min(behind, default=end) if compacted else 0
        self._expected = without_ranges(self.needed, [(0, compacted_end)])

    @property
    def state(self) -> PartitionState:
        """What is known of it, once all of its records were read."""
        transient = merged_ranges(self._transient)
        unsettled = {
            number: without_ranges(ranges, transient) for number, ranges in self._unsettled.items()
        }
        return PartitionState(self._name, self._end, unsettled)

    def records(self) -> Iterator[Records]:
        """Its records, those that are stored and those that are only in the journal."""
        journaled = zip(self._journaled.offsets, self._journaled.checksums, strict=True)
        # Of one offset the segments' comes first: readers get that.
        found = _ascending(heapq.merge(self._stored(), journaled, key=itemgetter(0)))
        expected = _chunks(self._expected)
        awaited = next(expected, None)
        for chunk, pairs in groupby(found, lambda pair: _chunk(pair[0])):
            while awaited is not None and awaited < chunk:
                yield self._piece(awaited, {})
                awaited = next(expected, None)
            if awaited == chunk:
                awaited = next(expected, None)
            yield self._piece(chunk, dict(pairs))
        while awaited is not None:
            yield self._piece(awaited, {})
            awaited = next(expected, None)

    def _piece(self, chunk: int, found: dict[int, int | None]) -> Records:
        missing = [offset for offset in _within(self._expected, chunk) if offset not in found]
        checksums = {offset: each for offset, each in found.items() if each is not None}
        return Records(self._name, chunk, checksums, missing)

    def _stored(self) -> Iterator[tuple[int, int | None]]:
        """Offsets and checksums; None: of records that were not journaled."""
        for base, path in self._paths.items():
            for stretch in self._scan(base, path):
                batch = stretch.batch
                if batch is None:
                    continue
                if self._has_journaled(batch):
                    yield from _checksums(batch)
                else:
                    offsets = range(batch.base_offset, batch.end_offset)
                    self._transient.append((offsets.start, offsets.stop))
                    yield from ((offset, None) for offset in offsets)

    def _has_journaled(self, batch: RecordBatch) -> bool:
        is_persistent = bool(batch.records.attributes & PERSISTENT)
        return self._is_journaled and (is_persistent or self._is_stream)

    def _scan(self, base: int, path: Path) -> Iterator[Stretch]:
        content = read_segment(self._data.disk, path)
        self._progress(len(content))
        return scan(content, base)


def _name(declared: DeclaredPartition) -> PartitionName:
    return declared.vhost, declared.queue, declared.index


def _chained(checksum: int, value: object) -> int:
    following: int = crc32c(b"%08x" % checksum + msgspec.msgpack.encode(value))
    return following


def _chunk(offset: int) -> int:
    return offset // CHUNK


def _checksums(batch: RecordBatch) -> Iterator[tuple[int, int]]:
    content = batch.records
    for at in range(batch.end_offset - batch.base_offset):
        key, properties, body = content.routing_key(at), content.properties(at), content.body(at)
        # Where each begins, too: a byte that changes sides is a difference.
        whole = b"%d %d %b%b%b" % (len(key), len(properties), key, properties, body)
        yield batch.base_offset + at, crc32c(whole)


def _ascending(pairs: Iterable[tuple[int, int | None]]) -> Iterator[tuple[int, int | None]]:
    last = -1
    for pair in pairs:
        if pair[0] > last:
            last = pair[0]
            yield pair


def _unsettled(settled: SettledSet, end: int) -> Iterator[tuple[int, int]]:
    first = settled.unsettled_from(settled.low_water)
    while first < end:
        behind = settled.settled_from(first, end)
        yield first, behind
        first = settled.unsettled_from(behind)


def _chunks(ranges: Ranges) -> Iterator[int]:
    last = -1
    for first, end in ranges:
        for chunk in range(max(_chunk(first), last + 1), _chunk(end - 1) + 1):
            last = chunk
            yield chunk


def _within(ranges: Ranges, chunk: int) -> Iterator[int]:
    begin, behind = chunk * CHUNK, (chunk + 1) * CHUNK
    for at in range(bisect_right(ranges, begin, key=itemgetter(1)), len(ranges)):
        first, end = ranges[at]
        if first >= behind:
            break
        yield from range(max(first, begin), min(end, behind))
