"""Verification: reads all of a data directory, changes nothing, and says what is damaged."""

import struct
import zlib
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import msgspec

from routelog.log_backend.journal.journal_block import Block, FileMark, aligned
from routelog.log_backend.journal.journal_chain import Mark
from routelog.log_backend.journal.journal_extent import JournalExtent
from routelog.log_backend.journal.journal_files import JournalFiles, find_end
from routelog.log_backend.journal.journal_reader import UNKNOWN_FILE, claims_block, whole_blocks
from routelog.log_backend.metadata.metadata import MetadataCorrupt
from routelog.log_backend.segments.damage import Damage
from routelog.log_backend.segments.log_directory import (
    compressed_path,
    is_compacted,
    with_following,
)
from routelog.log_backend.segments.partition_file import PARTITION_FILE
from routelog.log_backend.segments.segment_file import FILE_MISSING
from routelog.log_backend.segments.segment_index import SegmentIndex, read_index
from routelog.log_backend.segments.segment_scan import Stretch, read_segment, scan
from routelog.log_backend.tools.data_directory import DataDirectory, Marks, StoredPartition
from routelog.log_backend.upkeep.partition_removal import TOMBSTONES

NO_REPAIR = "nothing"
UNREADABLE = (ValueError, struct.error, zlib.error, msgspec.MsgspecError, MetadataCorrupt)


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that verification has to say.

    Attributes:
        severity: "damage", or "notice" for what a start of the broker puts right by itself.
        file: below the data directory; empty for metadata.
        position: byte in the file.
        queue: with its vhost, where the partition has a name.
        partition: its number; None for what concerns all.
        first, end: [first, end) offsets concerned; None when they are not known.
        repair: what a repair would do.
    """

    severity: str
    file: str
    position: int
    reason: str
    repair: str
    vhost: str | None = None
    queue: str | None = None
    index: int | None = None
    partition: int | None = None
    first: int | None = None
    end: int | None = None


Progress = Callable[[int], None]  # bytes read


class Verification:
    """One pass over a data directory.

    Attributes:
        bytes_done, batches, blocks: what was read so far.
    """

    def __init__(self, data: DataDirectory, progress: Progress = lambda size: None) -> None:
        self._data = data
        self._progress = progress
        self.bytes_done = 0
        self.batches = 0
        self.blocks = 0

    def run(self) -> Iterator[Finding]:
        """All findings: metadata, then partition by partition, then the journal."""
        yield from self._tombstones()
        seen: dict[int, StoredPartition] = {}
        for partition in self._data.partitions():
            yield from self.partition(partition)
            owner = partition.owner
            if owner is not None and seen.setdefault(owner, partition) is not partition:
                other = self._data.relative(seen[owner].directory)
                reason = f"it has the same partition number as {other}"
                yield self._finding(partition, partition.directory, 0, reason, NO_REPAIR)
        yield from self.journal()

    def partition(self, partition: StoredPartition) -> Iterator[Finding]:
        """What is wrong with one partition."""
        if not partition.known:
            if partition.segments:
                yield self._notice(
                    partition,
                    partition.directory,
                    "no queue has these files; they are of a deleted one",
                    NO_REPAIR,
                )
            return
        assert partition.number is not None
        try:
            marks = self._data.marks(partition.number)
            damage = self._data.damage(partition.number)
        except UNREADABLE as error:
            reason = f"a snapshot of its cursors cannot be decoded: {error}"
            yield self._finding(partition, None, 0, reason, NO_REPAIR)
            return
        yield from self._owner(partition)
        found = 0
        for finding in self._segments(partition, marks, damage.still_promised(marks.synced_offset)):
            found += 1
            yield finding
        if not found:
            for noted in damage.found:
                yield self._noted(partition, noted)

    def _owner(self, partition: StoredPartition) -> Iterator[Finding]:
        if not partition.segments or partition.owner == partition.number:
            return
        path = partition.directory / PARTITION_FILE
        if partition.owner is None:
            reason = "it cannot be read" if partition.has_owner_file else "it is missing"
            yield self._finding(
                partition, path, 0, reason, "write it again", first=min(partition.segments)
            )
        else:
            reason = f"it names partition {partition.owner}, a deleted queue's"
            yield self._notice(partition, path, reason, NO_REPAIR)

    def _segments(
        self, partition: StoredPartition, marks: Marks, promised: int
    ) -> Iterator[Finding]:
        for path, check in segment_checks(self._data, partition, promised):
            yield from self._check(partition, path, check)
            self._progress(check.size)
            self.bytes_done += check.size
            self.batches += check.batches

    def _check(
        self, partition: StoredPartition, path: Path, check: "SegmentCheck"
    ) -> Iterator[Finding]:
        for stretch in check.damaged():
            end = check.end if stretch.end is None else stretch.end
            fix = "cut it off" if stretch.position + stretch.size == check.size else "take it out"
            yield self._finding(
                partition, path, stretch.position, stretch.reason, fix, stretch.first, end
            )
        if check.torn:
            reason = f"{check.torn} bytes are torn, or damaged before they were synced"
            yield self._notice(partition, path, reason, NO_REPAIR, check.torn_at)
        if check.is_unindexed:
            path = path.with_suffix(".index")
            reason = "the index files are missing or damaged"
            yield self._notice(partition, path, reason, "build them again")

    def _noted(self, partition: StoredPartition, damage: Damage) -> Finding:
        path = partition.directory / damage.file
        reason = f"the broker met damage ({damage.reason}), and it is not there now"
        return self._finding(
            partition, path, damage.position, reason, "end the quarantine", damage.first, damage.end
        )

    # -- journal and metadata

    def journal(self) -> Iterator[Finding]:
        """What is wrong with the journal."""
        for check in check_journal(self._data):
            self._progress(check.bytes)
            self.bytes_done += check.bytes
            self.blocks += len(check.blocks)
            for severity, position, reason, repair in check.found:
                yield Finding(
                    severity=severity,
                    file=self._data.relative(check.path),
                    position=position,
                    reason=reason,
                    repair=repair,
                )

    def _tombstones(self) -> Iterator[Finding]:
        for key, entry in self._data.metadata.scan(TOMBSTONES):
            name = key[len(TOMBSTONES) :].decode(errors="replace")
            if not entry.value.isdigit():
                reason = f"the tombstone of {name} is no number"
                yield Finding(
                    severity="damage", file="", position=0, reason=reason, repair=NO_REPAIR
                )

    def _finding(
        self,
        partition: StoredPartition,
        path: Path | None,
        position: int,
        reason: str,
        repair: str,
        first: int | None = None,
        end: int | None = None,
        severity: str = "damage",
    ) -> Finding:
        return Finding(
            severity=severity,
            file="" if path is None else self._data.relative(path),
            position=position,
            reason=reason,
            repair=repair,
            vhost=partition.vhost,
            queue=partition.queue,
            index=partition.index,
            partition=partition.number,
            first=first,
            end=end,
        )

    def _notice(
        self, partition: StoredPartition, path: Path, reason: str, repair: str, position: int = 0
    ) -> Finding:
        return self._finding(partition, path, position, reason, repair, severity="notice")


class SegmentCheck:
    """What a segment holds, against its name, its index and its neighbours.

    Args:
        next_base: base offset of the segment that follows; None for the newest.
        promised: records below it were made durable.

    Attributes:
        stretches: whole batches and what lies between.
        end: offset behind everything it may hold.
        torn: bytes of a torn tail, from `torn_at` on.
        is_missing: there is no such file.
        may_begin_later: compaction has taken records from it; offsets are missing between batches, too.
    """

    def __init__(
        self,
        base: int,
        next_base: int | None,
        content: bytearray,
        index: SegmentIndex | None,
        promised: int,
    ) -> None:
        self.base = base
        self.next_base = next_base
        self.index = index
        self.promised = promised
        self.size = len(content)
        self.is_missing = self.may_begin_later = False
        self.stretches = list(scan(content, base, [] if index is None else index.positions))
        self.batches = sum(stretch.batch is not None for stretch in self.stretches)
        self.end = promised if next_base is None else next_base
        self.torn = 0
        self.torn_at = self.size
        if next_base is None:
            self._find_torn()

    @property
    def sealed_size(self) -> int:
        """What lies behind is not of this segment."""
        return self.size if self.index is None else self.index.size

    @property
    def is_unindexed(self) -> bool:
        """It is sealed, and its index files are missing or damaged."""
        return self.next_base is not None and self.index is None and not self.is_missing

    @property
    def whole_end(self) -> int:
        """Offset behind the last whole batch; the base when there is none."""
        ends = [stretch.end for stretch in self.stretches if stretch.batch is not None]
        return ends[-1] or self.base if ends else self.base

    def _find_torn(self) -> None:
        # Behind what was promised, the journal has the records, as often as they are needed.
        offset = self.base
        for at, stretch in enumerate(self.stretches):
            if stretch.batch is None and offset >= self.promised:
                self.torn_at = stretch.position
                self.torn = self.size - self.torn_at
                del self.stretches[at:]
                return
            offset = offset if stretch.end is None else stretch.end

    def damaged(self) -> Iterator[Stretch]:
        """What is no whole batch, or not there."""
        stretches = self.stretches
        if self.is_missing:
            yield Stretch(0, 0, None, FILE_MISSING, self.base, self.end)
            return
        first = next((each.batch for each in stretches if each.batch is not None), None)
        is_named = first is None or first.base_offset == self.base or self.may_begin_later
        if first is not None and stretches[0].batch is first and not is_named:
            reason = f"it begins at offset {first.base_offset}: it is another segment"
            yield Stretch(0, self.size, None, reason, self.base, self.end)
            return
        for stretch, behind in pairwise([*stretches, None]):
            if stretch is not None and stretch.batch is None:
                end = stretch.end
                if end is None and behind is not None:
                    end = behind.first
                yield Stretch(
                    stretch.position, stretch.size, None, stretch.reason, stretch.first, end
                )
        yield from self._end_of_newest() if self.next_base is None else self._end_of_sealed()

    def _end_of_newest(self) -> Iterator[Stretch]:
        last = self.stretches[-1] if self.stretches else None
        end = self.whole_end
        if end < self.promised and (last is None or last.batch is not None):
            reason = "the file is cut off"
            yield Stretch(self.torn_at, 0, None, reason, end, self.promised)

    def _end_of_sealed(self) -> Iterator[Stretch]:
        index, end, next_base = self.index, self.whole_end, self.next_base
        assert next_base is not None
        last = self.stretches[-1] if self.stretches else None
        if last is not None and last.batch is None:
            return  # its end is damaged: that was said
        if end > next_base:
            reason = f"it overlaps the segment of offset {next_base}"
            yield Stretch(self.size, 0, None, reason, next_base, next_base)
        elif index is None:
            if last is None:
                yield Stretch(0, 0, None, "it holds no batch", self.base, next_base)
        elif self.size < index.size:
            reason = f"it is cut off: {self.size} bytes, not {index.size}"
            yield Stretch(self.size, 0, None, reason, end, index.end_offset)
        elif self.size > index.size:
            reason = f"it is longer than when it was sealed: {self.size} bytes, not {index.size}"
            yield Stretch(index.size, 0, None, reason, index.end_offset, index.end_offset)
        elif end != index.end_offset:
            reason = f"it ends at another offset than {index.end_offset}"
            yield Stretch(self.size, 0, None, reason, end, index.end_offset)
        elif next_base != index.next_base:
            reason = f"the segment of offset {index.next_base}, which follows it, is missing"
            yield Stretch(self.size, 0, None, reason, end, next_base)


def segment_checks(
    data: DataDirectory, partition: StoredPartition, promised: int
) -> Iterator[tuple[Path, SegmentCheck]]:
    """The segments of a known partition, as they are now, each with its check."""
    there = set(data.disk.list_directory(partition.directory))
    paths = data.expected_segments(partition)
    for base, next_base in with_following(list(paths)):
        path = paths[base]
        content = read_segment(data.disk, path)
        index = None if next_base is None else read_index(data.disk, path)
        check = SegmentCheck(base, next_base, content, index, promised)
        check.is_missing = there.isdisjoint((path.name, compressed_path(path).name))
        check.may_begin_later = is_compacted(path)
        yield path, check


class JournalCheck:
    """One journal file.

    Attributes:
        mark: what all its blocks carry.
        blocks: positions in the file and whole blocks, those that count.
        found: severity, position in the file, reason, what a repair does.
    """

    def __init__(self, path: Path, mark: FileMark, size: int) -> None:
        self.path = path
        self.mark = mark
        self.bytes = size
        self.blocks: list[tuple[int, Block]] = []
        self.found: list[tuple[str, int, str, str]] = []

    def damage(self, at: int, reason: str) -> None:
        """Note damage."""
        self.found.append(("damage", at, reason, "keep the whole commits, in a new file"))

    def notice(self, at: int, reason: str) -> None:
        """Note what a start puts right."""
        self.found.append(("notice", at, reason, NO_REPAIR))


def check_journal(data: DataDirectory) -> Iterator[JournalCheck]:
    """The journal's files in order, with what is wrong with each."""
    files = JournalFiles(data.journal, data.disk)
    for path in files.half_repaired():
        check = JournalCheck(path, FileMark(0, 0), 0)
        check.damage(0, "a repair was interrupted")
        yield check
    extent = JournalExtent(data.metadata)
    last = extent.last
    for number in extent.missing([mark.number for mark in files.marks()]):
        check = JournalCheck(files.any_path(number), FileMark(number, 0), 0)
        check.damage(0, FILE_MISSING)
        yield check
    applied = extent.applied
    committed = max(_committed(files), applied)
    beginning = extent.beginning
    before: Mark | None = None
    expected = 0
    ended = False  # a commit is missing that was never synced: what follows does not count
    marks = files.marks()
    for mark in marks:
        content = files.read(mark)
        check = JournalCheck(files.path(mark), mark, len(content))
        if find_end(content) is None:
            check.damage(len(content), "the mark at its end is missing: it is cut off, or damaged")
        end = behind = 0
        if mark.number == beginning.number and before is None:
            before, expected = beginning.before, beginning.position
        for at, block in whole_blocks(content, mark):
            if mark.number > last and not check.blocks:
                check.damage(at, UNKNOWN_FILE)
            before = before or Mark(block.first - 1, 0, block.previous)
            expected = before.position + 1
            if not ended and not before.precedes(block):
                if committed >= expected:
                    check.damage(end, _missing(expected, block.position))
                else:
                    ended = True
            if ended:
                behind += 1
                continue
            check.blocks.append((at, block))
            before, expected = block.mark, block.position + 1
            end = at + aligned(block.length)
        if behind:
            reason = (
                f"commit {expected} was never synced and is missing: {behind} commits behind it"
            )
            check.notice(end, f"{reason} do not count")
        elif not ended and claims_block(content, end, mark, expected):
            check.notice(end, f"commit {expected} is torn, or damaged at the very end")
        if mark == marks[-1] and not ended and 0 < expected <= applied:
            check.damage(end, _missing(expected, applied + 1))
        yield check


def _committed(files: JournalFiles) -> int:
    # The highest commit that a whole block calls committed.
    return max(
        (
            block.committed
            for mark in files.marks()
            for _, block in whole_blocks(files.read(mark), mark)
        ),
        default=0,
    )


def _missing(first: int, behind: int) -> str:
    if behind < first:
        return f"commit {first} is missing: {behind} is there once more"
    if behind == first:
        return f"commit {first} is missing: the one there does not follow commit {first - 1}"
    return f"commits {first} to {behind - 1} are missing"
