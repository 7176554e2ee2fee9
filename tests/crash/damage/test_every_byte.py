"""Every flipped byte and every truncation of a stored log of about 1 MiB is reported or does no harm.

Exhaustive, always: each byte of each batch, index, partition file, journal block and end mark, one bit
flipped, against the reader of its format. Each length of each index, partition and journal file.
Sampled: the whole store is opened and read after a flip or a cut; ROUTELOG_TEST_DAMAGES says how often
(`make crash` raises it). `test_every_file.py` has the files as a whole.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from crash.damage.stored_log import QUEUES, Messages, build, check, read_all

from routelog.log_backend.doors.disk import SystemDisk
from routelog.log_backend.journal.journal_block import BLOCK_ALIGNMENT, FileMark, decode_block
from routelog.log_backend.journal.journal_files import JournalFiles, find_end
from routelog.log_backend.journal.journal_reader import whole_blocks
from routelog.log_backend.records.record_batch import CorruptBatch, decode_batch
from routelog.log_backend.segments.partition_file import decode_number
from routelog.log_backend.segments.segment_index import decode_index
from routelog.log_backend.segments.segment_scan import scan

pytestmark = pytest.mark.crash

DAMAGES = int(os.environ.get("ROUTELOG_TEST_DAMAGES", "40"))
DISK = SystemDisk()


@pytest.fixture
async def stored(tmp_path: Path) -> tuple[Path, Messages]:
    """A stored log and what is promised of it."""
    data = tmp_path / "data"
    return data, await build(data)


def flipped(content: bytes, at: int) -> bytearray:
    damaged = bytearray(content)
    damaged[at] ^= 1 << at % 8
    return damaged


def files(data: Path) -> list[Path]:
    found = [path for folder in ("logs", "journal") for path in (data / folder).rglob("*")]
    return sorted(path for path in found if path.is_file())


def journal(data: Path) -> Iterator[tuple[Path, bytearray, FileMark]]:
    """Each journal file, its content and its mark."""
    found = JournalFiles(data / "journal", DISK)
    for mark in found.marks():
        yield found.path(mark), found.read(mark), mark


def segments(data: Path) -> Iterator[tuple[Path, int, int | None]]:
    """Each segment with its base offset and that of the one behind it."""
    for directory in sorted({path.parent for path in (data / "logs").rglob("*.log")}):
        bases = sorted(int(path.stem) for path in directory.glob("*.log"))
        for base, behind in zip(bases, [*bases[1:], None], strict=True):
            yield directory / f"{base:020d}.log", base, behind


async def test_the_store_is_what_it_is_meant_to_be(
    stored: tuple[Path, Messages], caplog: pytest.LogCaptureFixture
) -> None:
    data, promised = stored
    assert 900_000 < sum(path.stat().st_size for path in files(data)) < 1_500_000
    assert sum(1 for _ in segments(data)) > 2 * len(QUEUES)
    assert len(list((data / "journal").iterdir())) > 1
    outcome = await read_all(data, caplog)
    assert outcome.messages == promised
    assert outcome.reports == []


async def test_no_batch_is_read_with_a_flipped_bit(stored: tuple[Path, Messages]) -> None:
    data, _ = stored
    count = 0
    for path, base, _ in segments(data):
        content = path.read_bytes()
        for stretch in scan(content, base):
            assert stretch.batch is not None
            whole = content[stretch.position : stretch.position + stretch.size]
            damaged = bytearray(whole)
            for at in range(len(whole)):
                damaged[at] ^= 1 << at % 8
                with pytest.raises(CorruptBatch):
                    decode_batch(damaged, 0)
                damaged[at] = whole[at]
                count += 1
    assert count > 400_000


async def test_no_small_file_is_read_with_a_flipped_bit_or_cut(
    stored: tuple[Path, Messages],
) -> None:
    data, _ = stored
    for path in (data / "logs").rglob("PARTITION"):
        content = path.read_bytes()
        assert decode_number(content) is not None
        for at in range(len(content)):
            assert decode_number(bytes(flipped(content, at))) is None
            assert decode_number(content[:at]) is None
    for path in (data / "logs").rglob("*.index"):
        index, times = path.read_bytes(), path.with_suffix(".timeindex").read_bytes()
        assert decode_index(index, times) is not None
        for at in range(len(index)):
            assert decode_index(bytes(flipped(index, at)), times) is None
            assert decode_index(index[:at], times) is None
        for at in range(len(times)):
            assert decode_index(index, bytes(flipped(times, at))) is None
            assert decode_index(index, times[:at]) is None


async def test_no_journal_block_is_read_with_a_flipped_bit(stored: tuple[Path, Messages]) -> None:
    data, _ = stored
    count = 0
    for _, content, mark in journal(data):
        for at, block in whole_blocks(content, mark):
            whole = content[at : at + block.length]
            damaged = bytearray(whole)
            for place in range(len(whole)):
                damaged[place] ^= 1 << place % 8
                assert decode_block(damaged, 0, mark) is None
                damaged[place] = whole[place]
                count += 1
    assert count > 40_000


async def test_a_flip_between_the_blocks_changes_nothing(stored: tuple[Path, Messages]) -> None:
    data, _ = stored
    for _, content, mark in journal(data):
        blocks = [at for at, _ in whole_blocks(content, mark)]
        end = (blocks[-1] + BLOCK_ALIGNMENT) if blocks else 0
        for at in range(end, len(content) - BLOCK_ALIGNMENT, BLOCK_ALIGNMENT):
            # No flipped bit makes a block of a page that is none: its checksum would have to fit.
            assert decode_block(content, at, mark) is None


async def test_every_cut_of_a_journal_file_is_seen(stored: tuple[Path, Messages]) -> None:
    data, _ = stored
    for path in (data / "journal").iterdir():
        content = path.read_bytes()
        view = memoryview(content)
        last_page = len(content) - BLOCK_ALIGNMENT
        assert find_end(content) == last_page
        whole_pages = range(0, len(content), BLOCK_ALIGNMENT)
        for length in {*whole_pages, *range(last_page - 10, len(content))}:
            assert find_end(view[:length]) is None
        for at in range(16):
            assert find_end(flipped(content, last_page + at)) is None


async def test_whole_stores_with_flipped_bits_and_cuts(
    stored: tuple[Path, Messages], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data, promised = stored
    paths = files(data)
    choice = random.Random(7)
    harmless = reported = 0
    for number in range(DAMAGES):
        path = paths[number % len(paths)]
        copy = tmp_path / "copy"
        shutil.copytree(data, copy)
        target = copy / path.relative_to(data)
        content = path.read_bytes()
        used = len(content.rstrip(b"\0")) or 1
        at = choice.randrange(used if choice.random() < 0.9 else len(content))
        if choice.random() < 0.6:
            target.write_bytes(flipped(content, at))
            where = f"{path.name} with a flip at {at}"
        else:
            target.write_bytes(content[:at])
            where = f"{path.name} cut to {at}"
        outcome = await read_all(copy, caplog)
        check(outcome, promised, where)
        if outcome.messages == promised:
            harmless += 1
        else:
            assert outcome.reports, where
            reported += 1
        shutil.rmtree(copy)
    assert harmless
    assert reported


async def test_the_last_commit_is_vouched_for_when_the_journal_was_idle(
    stored: tuple[Path, Messages], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data, promised = stored
    last = max(
        (block.position, at, path)
        for path, content, mark in journal(data)
        for at, block in whole_blocks(content, mark)
        if block.entries
    )
    _, at, path = last
    content = path.read_bytes()
    for place in (0, 4, 12, 20, 28, 36, 44, 49, 100):
        path.write_bytes(flipped(content, at + place))
        outcome = await read_all(data, caplog)
        assert outcome.refused
        assert path.name in outcome.reports[0]
    # Without what vouches for it, the loss is not refused but told.
    without_mark = bytearray(content)
    mark = at + BLOCK_ALIGNMENT * -(-len(block_at(content, at)) // BLOCK_ALIGNMENT)
    without_mark[mark : mark + BLOCK_ALIGNMENT] = bytes(BLOCK_ALIGNMENT)
    without_mark[at + 100] ^= 1
    path.write_bytes(without_mark)
    outcome = await read_all(data, caplog)
    assert not outcome.refused
    check(outcome, promised, "the last commit")
    assert any("torn, or damaged since" in report for report in outcome.reports)


def block_at(content: bytes, at: int) -> bytes:
    length = int.from_bytes(content[at + 40 : at + 44], "little")
    return content[at : at + length]
