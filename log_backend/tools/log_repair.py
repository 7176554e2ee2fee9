"""Repair of a data directory: what is whole stays, what is not is set aside, what is lost is said.

Everything that is taken out is first copied to `quarantine/<time>/` below the data directory, and synced.
Files are replaced whole (written aside, synced, renamed, directory synced), and the metadata says that a
partition is damaged until its repair is complete: interrupted, it is run again.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path

import msgspec

from routelog.log_backend.doors.disk import Buffer, Disk, opened, read_file, replace_file
from routelog.log_backend.doors.randomness import random_number
from routelog.log_backend.journal.journal_block import (
    BLOCK_ALIGNMENT,
    Block,
    FileMark,
    encode_block,
)
from routelog.log_backend.journal.journal_chain import Mark, ShardBlock
from routelog.log_backend.journal.journal_extent import Beginning, JournalExtent
from routelog.log_backend.journal.journal_files import (
    REPAIRED,
    SUFFIX,
    UNFINISHED,
    JournalFiles,
    write_end,
)
from routelog.log_backend.journal.journal_reader import whole_blocks
from routelog.log_backend.records.record_batch import (
    HEADER_BYTES,
    CorruptBatch,
    RecordBatch,
    decode_header,
)
from routelog.log_backend.segments.damage import (
    EVERYTHING_BEHIND,
    DamageRecord,
    damage_change,
    merged_ranges,
    without_ranges,
)
from routelog.log_backend.segments.first_kept import first_kept_change
from routelog.log_backend.segments.log_directory import (
    COMPRESSED,
    INDEXES,
    PLAIN,
    is_compacted,
    segment_path,
)
from routelog.log_backend.segments.partition_file import PARTITION_FILE, encode_number
from routelog.log_backend.segments.segment import Segment
from routelog.log_backend.segments.segment_index import read_index
from routelog.log_backend.segments.segment_scan import read_segment
from routelog.log_backend.tools.data_directory import DataDirectory, StoredPartition
from routelog.log_backend.tools.log_verification import (
    NO_REPAIR,
    SegmentCheck,
    Verification,
    check_journal,
    segment_checks,
)

Source = Callable[[Path, int, int], list[RecordBatch]]

MOVED_SUFFIX = ".moved"  # a segment on its way to its right name


class Repaired(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was done, or would be.

    Attributes:
        what: for people.
        file: below the data directory.
        lost: [first, end) offsets whose records, as far as there were any, are gone.
    """

    what: str
    file: str
    vhost: str | None = None
    queue: str | None = None
    index: int | None = None
    partition: int | None = None
    lost: list[tuple[int, int]] = msgspec.field(default_factory=list)


class Repair:
    """One repair of a data directory that no broker uses.

    Args:
        aside: directory for what is taken out; made when there is something.
        is_dry: nothing is changed.
        source: has the records of a partition's directory between two offsets, for those that are damaged; by
            default they are lost.
    """

    def __init__(
        self, data: DataDirectory, aside: Path, *, is_dry: bool, source: Source | None = None
    ) -> None:
        self._data = data
        self._disk: Disk = data.disk
        self._journal_files = JournalFiles(data.journal, data.disk)
        self._aside = aside
        self._is_dry = is_dry
        self._source = source

    def run(self) -> Iterator[Repaired]:
        """Repair each partition that is damaged, then the journal."""
        for partition in self._data.partitions():
            if partition.known:
                yield from self.partition(partition)
        yield from self._journal()

    def _needs_repair(self, partition: StoredPartition) -> bool:
        if any(name.endswith(MOVED_SUFFIX) for name in self._names(partition)):
            return True
        findings = list(Verification(self._data).partition(partition))
        return any(each.repair != NO_REPAIR for each in findings)

    # -- a partition

    def partition(self, partition: StoredPartition) -> Iterator[Repaired]:
        """Repair one that is known, if it is damaged."""
        if self._needs_repair(partition):
            yield from self._partition(partition)

    def _partition(self, partition: StoredPartition) -> Iterator[Repaired]:
        number = partition.number
        assert number is not None
        directory = partition.directory
        record = self._data.damage(number)
        promised = record.still_promised(self._data.marks(number).synced_offset)
        if partition.segments and partition.owner is None:
            yield self._done(partition, "PARTITION written again", directory / PARTITION_FILE)
            self._set_aside(directory / PARTITION_FILE)
            self._replace(directory / PARTITION_FILE, encode_number(number))
        yield from self._place(partition)
        plan = [
            SegmentRepair(self._disk, path, check)
            for path, check in segment_checks(self._data, partition, promised)
        ]
        source = self._source and partial(self._source, directory.relative_to(self._data.path))
        if source is not None:
            for step in plan:
                step.fill(source)
        # What the broker noted may not show any more, once other segments lie behind it.
        noted = [(each.first, each.end) for each in record.found if each.end < EVERYTHING_BEHIND]
        whole = [(batch.base_offset, batch.end_offset) for step in plan for batch, _ in step.kept]
        whole += [each for step in plan for each in step.filled]
        seen = merged_ranges([each for step in plan for each in step.lost])
        unseen = without_ranges(without_ranges(merged_ranges(noted), merged_ranges(whole)), seen)
        if source is not None:
            unseen = [each for each in unseen if source(*each)]
        lost = merged_ranges(seen + unseen)
        known = DamageRecord(record.found, merged_ranges([*record.lost, *lost]))
        if not self._is_dry:
            self._data.metadata.apply([damage_change(number, known)])
        for step in plan:
            if step.is_damaged:
                yield self._done(partition, step.what, step.path, step.lost)
                self._rewrite(step)
        yield from self._index(partition)
        if record.found:
            yield self._done(partition, "the quarantine ends", directory, unseen)
        if not self._is_dry:
            bases = list(self._data.current(partition))
            is_synced = len(bases) > 1 or (bases and promised > bases[0])
            first_kept = first_kept_change(number, bases[0] if is_synced else None)
            ended = damage_change(number, DamageRecord([], known.lost))
            self._data.metadata.apply([ended, first_kept])

    def _place(self, partition: StoredPartition) -> Iterator[Repaired]:
        """Give segments with another one's name their own, or set them aside when it is taken."""
        directory = partition.directory
        if self._is_dry:
            for base, path in self._plain(partition):
                if (true_base := self._first_offset(path)) not in (None, base):
                    what = f"moved to the place of its first offset, {true_base}, if that is free"
                    yield self._done(partition, what, path)
            return
        for base, path in self._plain(partition):
            true_base = self._first_offset(path)
            if true_base is not None and true_base != base:
                self._set_aside(path)
                self._rename(path, path.with_suffix(f".{true_base}{MOVED_SUFFIX}"))
        for name in self._names(partition):
            if not name.endswith(MOVED_SUFFIX):
                continue
            path = directory / name
            target = segment_path(directory, int(name.split(".")[1]))
            if target.name in self._names(partition):
                yield self._done(partition, f"taken out: {target.name} is there", path)
                self._disk.remove(path)
                self._disk.sync_directory(directory)
            else:
                yield self._done(partition, f"moved to {target.name}", path)
                self._rename(path, target)

    def _plain(self, partition: StoredPartition) -> list[tuple[int, Path]]:
        # Those that have to begin at their base offset, and are not compressed.
        names = self._names(partition)
        return [
            (base, path)
            for base, path in self._data.current(partition).items()
            if path.name in names and not is_compacted(path)
        ]

    def _first_offset(self, path: Path) -> int | None:
        with opened(self._disk, path) as file:
            try:
                return decode_header(self._disk.read(file, 0, HEADER_BYTES)).base_offset
            except CorruptBatch:
                return None

    def _rewrite(self, step: "SegmentRepair") -> None:
        if self._is_dry:
            return
        path = step.path
        for suffix in (PLAIN, COMPRESSED, *INDEXES):
            self._set_aside(path.with_suffix(suffix))
        if step.kept:
            target = path
            if not is_compacted(path):
                target = segment_path(path.parent, step.kept[0][0].base_offset)
            self._replace(target, *(content for _, content in step.kept))
            if target == path:
                self._remove(path, (COMPRESSED,))
                return
        self._remove(path, (*INDEXES, COMPRESSED, PLAIN))

    def _remove(self, path: Path, suffixes: Sequence[str]) -> None:
        names = [path.with_suffix(suffix).name for suffix in suffixes]
        there = [name for name in names if name in self._disk.list_directory(path.parent)]
        for name in there:
            self._disk.remove(path.with_name(name))
        if there:
            self._disk.sync_directory(path.parent)

    def _index(self, partition: StoredPartition) -> Iterator[Repaired]:
        for (base, path), (next_base, _) in pairwise(self._data.current(partition).items()):
            index = read_index(self._disk, path)
            check = SegmentCheck(base, next_base, read_segment(self._disk, path), index, 0)
            check.may_begin_later = is_compacted(path)
            if not check.is_unindexed and not any(check.damaged()):
                continue
            if any(stretch.batch is None for stretch in check.stretches):
                continue  # a dry run: it would be rewritten before
            yield self._done(partition, "index built again", path.with_suffix(".index"))
            segment = Segment(path, base)
            for stretch in check.stretches:
                if stretch.batch is not None:
                    segment.add(stretch.batch, stretch.position, stretch.size)
            segment.next_base = next_base
            for index_path, content in segment.index_files():
                self._replace(index_path, content)

    # -- the journal

    def _journal(self) -> Iterator[Repaired]:
        if self._journal_files.half_repaired():
            yield Repaired(what="an interrupted repair is completed", file="journal")
            self._complete_journal()
            return
        checks = list(check_journal(self._data))
        if not any(severity == "damage" for check in checks for severity, *_ in check.found):
            return
        for check in checks:
            for severity, _, reason, _ in check.found:
                if severity == "damage":
                    file = self._data.relative(check.path)
                    yield Repaired(what=f"{reason}; the whole commits are kept", file=file)
        blocks = [block for check in checks for _, block in check.blocks]
        if not self._is_dry:
            for check in checks:
                self._set_aside(check.path)
            self._write_journal(blocks, max(check.mark.number for check in checks) + 1)
            self._complete_journal()

    def _write_journal(self, blocks: list[Block], number: int) -> None:
        mark = FileMark(number, random_number())
        # Those whose changes the metadata have keep positions up to that one, and the others get higher ones.
        applied = JournalExtent(self._data.metadata).applied
        first = applied + 1 - sum(block.position <= applied for block in blocks)
        first = max(first, blocks[0].position if blocks else 1)
        before = Mark(first - 1, 0, blocks[0].previous if blocks else 0)
        parts: list[Buffer] = []
        for each in blocks:
            block = ShardBlock.following(before, each.shard, each.epoch, each.payload)
            parts.append(encode_block(mark, block, first, before.position))
            before = block.mark
        size = sum(map(len, parts)) + BLOCK_ALIGNMENT
        path = self._journal_files.path(mark)
        with opened(self._disk, path.with_suffix(UNFINISHED), create=True) as file:
            self._disk.truncate(file, size)
            self._disk.write(file, 0, parts)
            write_end(self._disk, file, size)
        self._rename(path.with_suffix(UNFINISHED), path.with_suffix(REPAIRED))

    def _complete_journal(self) -> None:
        # From the moment the new file has its name, the old ones are not needed.
        if self._is_dry:
            return
        repaired = self._journal_files.half_repaired()
        self._data.metadata.apply(JournalExtent.only(*self._beginning(repaired[-1])))
        for mark in self._journal_files.marks():
            self._disk.remove(self._journal_files.path(mark))
        self._disk.sync_directory(self._data.journal)
        for path in repaired:
            self._rename(path, path.with_suffix(SUFFIX))

    def _beginning(self, path: Path) -> Beginning:
        # Of a repaired file; where it has no block, those that come next go on where it began before.
        number, salt = path.name.split(".")[0].split("-")
        mark = FileMark(int(number), int(salt, 16))
        content = bytearray(read_file(self._disk, path))
        for _, block in whole_blocks(content, mark):
            return Beginning(mark.number, Mark(block.position - 1, 0, block.previous))
        extent = JournalExtent(self._data.metadata)
        position = max(extent.beginning.before.position, extent.applied)
        return Beginning(mark.number, Mark(position, 0, 0))

    # -- files

    def _names(self, partition: StoredPartition) -> list[str]:
        return self._disk.list_directory(partition.directory)

    def _set_aside(self, path: Path) -> None:
        """Copy a file below the quarantine directory, synced; once."""
        if self._is_dry or path.name not in self._disk.list_directory(path.parent):
            return
        target = self._aside / path.relative_to(self._data.path)
        if target.name in self._disk.list_directory(target.parent):
            return
        self._disk.make_directory(target.parent)
        self._replace(target, read_file(self._disk, path))

    def _replace(self, path: Path, *content: Buffer) -> None:
        if not self._is_dry:
            replace_file(self._disk, path, path.with_name(path.name + ".new"), *content)

    def _rename(self, source: Path, target: Path) -> None:
        self._disk.rename(source, target)
        self._disk.sync_directory(target.parent)

    def _done(
        self,
        partition: StoredPartition,
        what: str,
        path: Path,
        lost: list[tuple[int, int]] | None = None,
    ) -> Repaired:
        return Repaired(
            what=what,
            file=self._data.relative(path),
            vhost=partition.vhost,
            queue=partition.queue,
            index=partition.index,
            partition=partition.number,
            lost=lost or [],
        )


class SegmentRepair:
    """What becomes of one segment.

    Attributes:
        kept: whole batches and their bytes, in order.
        lost: [first, end) offsets that are given up.
        filled: [first, end) offsets of which another log has said all.
        is_damaged: the file has to be written again; its index, when nothing of it was kept, goes.
    """

    def __init__(self, disk: Disk, path: Path, check: SegmentCheck) -> None:
        content = memoryview(read_segment(disk, path))
        damaged = list(check.damaged())
        self.path = path
        self.is_damaged = bool(damaged)
        self.kept: list[tuple[RecordBatch, memoryview]] = []
        self.filled: list[tuple[int, int]] = []
        end = check.end
        for stretch in check.stretches:
            batch = stretch.batch
            if batch is None or stretch.position >= check.sealed_size:
                continue
            if check.next_base is not None and batch.end_offset > end:
                continue  # the next segment has it
            place = slice(stretch.position, stretch.position + stretch.size)
            self.kept.append((batch, content[place]))
        self.lost = merged_ranges(
            [
                (each.first, each.end if each.end is not None else max(end, each.first))
                for each in damaged
                if each.end is None or each.end > each.first
            ]
        )
        self.lost = [(first, end) for first, end in self.lost if end > first]
        reasons = "; ".join(f"byte {each.position}: {each.reason}" for each in damaged)
        self.what = f"{reasons}; {len(self.kept)} whole batches are kept"

    def fill(self, source: Callable[[int, int], list[RecordBatch]]) -> None:
        """Put what another log has in the place of what is lost."""
        for first, end in self.lost:
            for batch in source(first, end):
                self.kept.append((batch, memoryview(batch.header() + bytes(batch.records.payload))))
        self.kept.sort(key=lambda each: each[0].base_offset)
        self.filled, self.lost = self.lost, []
