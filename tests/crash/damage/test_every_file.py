"""Every byte of every file of a stored log flipped, and every file cut at every length.

By what the broker and `routelog log verify` read with, in memory. Damage is reported at the place, and what is
read nevertheless is what was written. `make test` takes every 61st byte and length, `make crash` all.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from crash.damage.memory_disk import MemoryDisk
from crash.damage.stored_log import Messages, build
from crash.damage.test_every_byte import files, segments

from routelog.log_backend.journal.journal_block import (
    BLOCK_ALIGNMENT,
    JournalEntry,
    aligned,
    decode_block,
)
from routelog.log_backend.journal.journal_files import JournalFiles, find_end
from routelog.log_backend.journal.journal_reader import JournalDamaged, JournalReader, whole_blocks
from routelog.log_backend.records.record_batch import RecordBatch
from routelog.log_backend.segments.compressed_segment import CODECS, SegmentPacker, cut_blocks
from routelog.log_backend.segments.log_directory import compressed_path
from routelog.log_backend.segments.segment import (
    SegmentDamaged,
    headers,
    open_active,
    open_sealed,
    read_batch,
    read_batches,
)
from routelog.log_backend.segments.segment_file import open_segment_file
from routelog.log_backend.segments.segment_index import read_index
from routelog.log_backend.tools.log_verification import SegmentCheck

pytestmark = pytest.mark.crash

EVERY_BYTE = bool(os.environ.get("ROUTELOG_TEST_EVERY_BYTE"))
STEP = 1 if EVERY_BYTE else 61  # a prime, so that it meets all places of the formats
EVERYTHING = 1 << 40  # a promise that covers each offset

Figures = Callable[[str], None]


@pytest.fixture
async def stored(tmp_path: Path) -> tuple[Path, Messages]:
    """A stored log and what is promised of it."""
    data = tmp_path / "data"
    return data, await build(data)


@pytest.fixture
def disk(stored: tuple[Path, Messages]) -> MemoryDisk:
    """All files of its segments and its journal."""
    return MemoryDisk(files(stored[0]))


class SegmentProbe:
    """One segment in memory, and its batches when it was whole."""

    def __init__(self, disk: MemoryDisk, path: Path, base: int, next_base: int | None) -> None:
        self.disk = disk
        self.path = path
        self.base = base
        self.next_base = next_base
        self.whole = bytes(disk.files[path])
        self.index = None if next_base is None else read_index(disk, path)
        self.batches = self.read(0, base)

    def read(self, position: int, offset: int) -> list[RecordBatch]:
        """What the broker reads from a batch on, to the end of the file."""
        found: list[RecordBatch] = []
        end = len(self.disk.files[self.path])
        while position < end:
            read = read_batches(self.disk, self.path, position, end, offset, offset)
            found += read
            position += sum(batch.records.batch_bytes for batch in read)
            offset = read[-1].end_offset
        return found

    def places(self) -> Iterator[tuple[RecordBatch, int, int]]:
        """Batches, where they begin and where they end."""
        at = 0
        for batch in self.batches:
            yield batch, at, at + batch.records.batch_bytes
            at += batch.records.batch_bytes

    def verify(self) -> SegmentCheck:
        """What `routelog log verify` makes of it, with all of it promised."""
        promised = self.batches[-1].end_offset
        content = self.disk.files[self.path]
        return SegmentCheck(self.base, self.next_base, content, self.index, promised)


def all_segments(data: Path, disk: MemoryDisk) -> Iterator[SegmentProbe]:
    for path, base, next_base in segments(data):
        yield SegmentProbe(disk, path, base, next_base)


def batch_of(probe: SegmentProbe, at: int) -> tuple[RecordBatch, int]:
    return next((batch, first) for batch, first, end in probe.places() if at < end)


async def test_a_flipped_byte_of_a_segment_is_met_where_it_is(
    stored: tuple[Path, Messages], disk: MemoryDisk, figures: Figures
) -> None:
    count = 0
    for probe in all_segments(stored[0], disk):
        content = disk.files[probe.path]
        for at in range(0, len(content), STEP):
            batch, first = batch_of(probe, at)
            content[at] ^= 1 << at % 8
            # The broker, from the batch on: those before have not changed.
            with pytest.raises(SegmentDamaged) as met:
                probe.read(first, batch.base_offset)
            assert met.value.position == first
            assert met.value.first == batch.base_offset
            if probe.next_base is None:  # it is read whole at the start
                opened = open_active(disk, probe.path, probe.base, EVERYTHING)
                assert opened.damage is not None
                assert opened.damage.position == opened.segment.size == first
            # The tool: all batches but this one, and behind a damaged header at the most more.
            check = probe.verify()
            assert [each.position for each in check.damaged()][:1] == [first]
            kept = [each.batch for each in check.stretches if each.batch is not None]
            assert {each.base_offset for each in kept} < {b.base_offset for b in probe.batches}
            content[at] ^= 1 << at % 8
            count += 1
        assert content == probe.whole
    assert count * STEP > 500_000
    if EVERY_BYTE:
        figures(f"{count} bytes of segments flipped")


async def test_a_segment_is_missed_from_where_it_is_cut(
    stored: tuple[Path, Messages], disk: MemoryDisk, figures: Figures
) -> None:
    count = 0
    for probe in all_segments(stored[0], disk):
        content = disk.files[probe.path]
        ends = [first for _, first, _ in probe.places()]
        for length in sorted({*range(0, len(content), STEP), *ends}, reverse=True):
            del content[length:]
            _, first = batch_of(probe, length)
            if probe.next_base is not None:
                opened = open_sealed(disk, probe.path, probe.base, probe.next_base)
                assert opened.damage is not None
                assert opened.damage.position <= length
            else:
                opened = open_active(disk, probe.path, probe.base, EVERYTHING)
                assert opened.damage is not None
                assert opened.damage.position == opened.segment.size == first
                assert len(content) == length  # a promised one is left as it is
            assert any(probe.verify().damaged())
            if probe.next_base is None:
                # Of what nobody promised, the torn end goes.
                opened = open_active(disk, probe.path, probe.base, 0)
                assert opened.damage is None
                assert (opened.segment.size, len(content)) == (first, first)
                content += probe.whole[first:length]
            count += 1
        content += probe.whole
        assert content == probe.whole
    assert count * STEP > 500_000
    if EVERY_BYTE:
        figures(f"{count} lengths of segments cut")


def carried_out(journal: JournalFiles) -> dict[int, bytes] | None:
    """What a start carries out, by position of the commit; None when it is refused."""
    try:
        return {block.position: encoded(block.entries) for block in JournalReader(journal).blocks()}
    except JournalDamaged:
        return None


def encoded(entries: list[JournalEntry]) -> bytes:
    return b"".join(entry.encode() for entry in entries)


async def test_a_flipped_byte_of_the_journal_refuses_the_start_or_does_nothing(
    stored: tuple[Path, Messages], disk: MemoryDisk, figures: Figures
) -> None:
    journal = JournalFiles(stored[0] / "journal", disk)
    promised = carried_out(journal)
    assert promised is not None
    last = max(promised)  # it only vouches for those before it, and nothing does for it
    assert promised[last] == b""
    count = 0
    for mark in journal.marks():
        content = disk.files[journal.path(mark)]
        pages = {len(content) - BLOCK_ALIGNMENT: 0}  # with a block, or the mark of the end
        for at, block in whole_blocks(content, mark):
            pages |= dict.fromkeys(
                range(at, at + aligned(block.length), BLOCK_ALIGNMENT), block.position
            )
        for page in range(0, len(content), BLOCK_ALIGNMENT):
            for at in range(page, page + BLOCK_ALIGNMENT, STEP):
                content[at] ^= 1 << at % 8
                if page in pages:
                    found = carried_out(journal)
                    less = {key: value for key, value in promised.items() if key != last}
                    ends = pages[page] == last and found == less
                    assert found is None or found == promised or ends, (mark, at)
                else:
                    assert decode_block(content, page, mark) is None  # of this use of the file
                content[at] ^= 1 << at % 8
                count += 1
    assert carried_out(journal) == promised
    assert count * STEP > 400_000
    if EVERY_BYTE:
        figures(f"{count} bytes of the journal flipped")


async def test_a_journal_file_that_is_cut_refuses_the_start(
    stored: tuple[Path, Messages], disk: MemoryDisk, figures: Figures
) -> None:
    journal = JournalFiles(stored[0] / "journal", disk)
    count = 0
    for mark in journal.marks():
        content = disk.files[journal.path(mark)]
        whole = bytes(content)
        assert find_end(whole) == len(whole) - BLOCK_ALIGNMENT
        for length in range(0, len(whole), STEP):
            assert find_end(memoryview(whole)[:length]) is None
            count += 1
        for length in range(len(whole) - BLOCK_ALIGNMENT, -1, -4 * BLOCK_ALIGNMENT):
            del content[length:]
            with pytest.raises(JournalDamaged, match="the mark at its end is missing"):
                list(JournalReader(journal).blocks())
        content[:] = whole
    if EVERY_BYTE:
        figures(f"{count} lengths of the journal cut")


def compress(probe: SegmentProbe, codec: int) -> bytearray:
    """Put the compressed form of a sealed segment in its place; its content."""
    assert probe.index is not None
    packer = SegmentPacker(codec, probe.base)
    packed = bytearray(packer.end)
    for start, end in cut_blocks(probe.index.positions, len(probe.whole)):
        packed += b"".join(packer.block(bytearray(probe.whole[start:end])))
    packed += packer.table()
    header = packer.header()
    packed[: len(header)] = header
    del probe.disk.files[probe.path]
    probe.disk.files[compressed_path(probe.path)] = packed
    return packed


@pytest.mark.parametrize("compression", CODECS)
async def test_a_damaged_byte_of_a_compressed_segment_is_met(
    stored: tuple[Path, Messages], disk: MemoryDisk, compression: str, figures: Figures
) -> None:
    count = 0
    for probe in all_segments(stored[0], disk):
        if probe.next_base is None:
            continue
        packed = compress(probe, CODECS[compression])
        whole = bytes(packed)
        read = partial(read_all, disk, probe.path, probe.base, len(probe.whole))
        promised = read()
        assert len(promised) == len(probe.batches)
        for at in range(0, len(whole), STEP):
            packed[at] ^= 1 << at % 8
            with pytest.raises(SegmentDamaged):
                read()
            packed[at] = whole[at]
            count += 1
        for length in range(len(whole) - 1, -1, -STEP):
            del packed[length:]
            with pytest.raises(SegmentDamaged):
                read()
            count += 1
    assert count > 100
    if EVERY_BYTE:
        figures(f"{count} damages of {compression} segments")


def read_all(disk: MemoryDisk, path: Path, base: int, size: int) -> list[RecordBatch]:
    """What the scrub reads of a segment, in either form."""
    file = open_segment_file(disk, path)
    try:
        return [read_batch(file, *place) for place in headers(file, 0, size, base)]
    finally:
        file.close()
