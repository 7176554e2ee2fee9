from pathlib import Path

import pytest
from unit.log_backend.log_records import records
from unit.log_backend.open_store import MIB, append, durable, start_store, until
from unit.log_backend.watched_disk import WatchedDisk

from log_backend.journal_block import BLOCK_ALIGNMENT, FileMark
from log_backend.journal_files import JournalFiles, encode_end, find_end
from log_backend.journal_reader import JournalDamaged, whole_blocks

PAGE = BLOCK_ALIGNMENT


def test_the_end_is_where_the_mark_says() -> None:
    content = bytes(3 * PAGE) + encode_end(4 * PAGE)
    assert find_end(content) == 3 * PAGE
    # Behind it a crash may have left what a growing file was given.
    assert find_end(content + bytes(2 * PAGE)) == 3 * PAGE
    for length in range(len(content)):
        assert find_end(content[:length]) is None
    for at in range(16):
        damaged = bytearray(content)
        damaged[3 * PAGE + at] ^= 1
        assert find_end(damaged) is None


def test_a_mark_at_another_place_is_none() -> None:
    assert find_end(bytes(2 * PAGE) + encode_end(4 * PAGE)) is None
    assert find_end(b"") is None


def test_names_are_numbers_and_salts(tmp_path: Path) -> None:
    files = JournalFiles(tmp_path, WatchedDisk())
    marks = [FileMark(3, 1 << 63), FileMark(17, 5)]
    for mark in reversed(marks):
        files.path(mark).write_bytes(b"")
    (tmp_path / "00000000000000000018-0000000000000005.new").write_bytes(b"")
    (tmp_path / "00000000000000000019-0000000000000005.repaired").write_bytes(b"")
    assert files.marks() == marks
    assert [path.name[:20] for path in files.half_repaired()] == [f"{19:020d}"]


def test_what_a_crash_left_behind_the_last_page_is_cut_off(tmp_path: Path) -> None:
    disk = WatchedDisk()
    files = JournalFiles(tmp_path, disk)
    file = files.new(1, 4 * PAGE)
    disk.truncate(file.file, 9 * PAGE)
    disk.close(file.file)
    again = files.open(file.mark, 3 * PAGE)
    assert (again.size, disk.size(again.file)) == (3 * PAGE, 4 * PAGE)
    disk.close(again.file)


def test_a_file_that_grew_keeps_its_size_when_it_is_recycled(tmp_path: Path) -> None:
    disk = WatchedDisk()
    files = JournalFiles(tmp_path, disk)
    file = files.new(1, 4 * PAGE)
    files.grow(file, 6 * PAGE)
    assert find_end(files.read(file.mark)) == file.size == 6 * PAGE
    again = files.recycled(file, 2)
    assert find_end(files.read(again.mark)) == again.size == 6 * PAGE
    disk.close(again.file)


async def test_an_idle_journal_vouches_for_its_last_commit_once(data: Path) -> None:
    store, (partition,) = start_store(data)
    position = append(partition, 2)
    await durable(store, position)
    await until(lambda: store.journal.durable == position + 1)
    (path,) = [path for path in (data / "journal").iterdir() if any(path.read_bytes()[:PAGE])]
    files = JournalFiles(data / "journal", WatchedDisk())
    (mark,) = (mark for mark in files.marks() if files.path(mark) == path)
    blocks = [each for _, each in whole_blocks(files.read(mark), mark)]
    assert [len(each.entries) for each in blocks] == [1, 0]
    assert blocks[1].durable == position
    assert store.journal._mark_timer is not None
    assert store.journal._mark_timer.when() <= store._loop.time()  # no other one is under way
    await store.aclose()


async def test_a_file_that_grew_for_a_large_commit_is_whole(data: Path) -> None:
    store, (partition,) = start_store(data)
    await durable(store, append(partition, 1))
    await durable(store, partition.append(records([b"x" * 3 * MIB]), waited=True))
    await durable(store, append(partition, 1))
    for path in (data / "journal").glob("*.journal"):
        content = path.read_bytes()
        assert find_end(content) == len(content) - PAGE
    assert max(path.stat().st_size for path in (data / "journal").iterdir()) > 3 * MIB
    await store.aclose()


async def test_a_file_without_its_mark_stops_the_start_and_is_named(data: Path) -> None:
    store, (partition,) = start_store(data)
    await durable(store, append(partition, 2))
    await store.aclose()
    path = sorted((data / "journal").iterdir())[0]
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(JournalDamaged) as raised:
        start_store(data)
    assert raised.value.path == path
    assert "routelog log repair" in str(raised.value)
