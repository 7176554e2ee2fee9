"""Files of the journal: made whole or not at all, and marked at their ends."""

import errno
from contextlib import suppress
from pathlib import Path

import pytest
from support.waiting import until
from unit.log_backend.log_records import records
from unit.log_backend.open_store import MIB, append, durable, start_store
from unit.log_backend.watched_disk import WatchedDisk

from routelog.log_backend.doors.disk import DiskFull
from routelog.log_backend.journal.journal_block import BLOCK_ALIGNMENT, FileMark
from routelog.log_backend.journal.journal_files import JournalFiles, encode_end, find_end
from routelog.log_backend.journal.journal_reader import JournalDamaged, whole_blocks
from routelog.log_backend.log_store import LogOptions
from routelog.log_backend.partitions.partition_log import PartitionLog

PAGE = BLOCK_ALIGNMENT
FILE_BYTES = 65_536


@pytest.fixture
def disk() -> WatchedDisk:
    return WatchedDisk()


@pytest.fixture
def directory(disk: WatchedDisk, tmp_path: Path) -> JournalFiles:
    return JournalFiles(tmp_path, disk)


async def test_a_file_that_comes_back_does_not_make_room_for_the_making_of_another(
    data: Path, disk: WatchedDisk
) -> None:
    store, (partition,) = start_store(data, disk=disk)
    journal = store.journal

    async def use_a_file() -> None:
        await durable(store, partition.append(records([b"x" * 600_000]), waited=True))

    await use_a_file()
    await until(lambda: disk.count("fill", "*.new") == 2)
    coming_back, come_back = disk.hold("rename", "*.journal")
    await use_a_file()
    await until(coming_back.is_set)
    being_made, make = disk.hold("fill", "*.new")
    await use_a_file()
    come_back.set()
    await until(lambda: journal.supply.ready)
    await until(being_made.is_set)
    await use_a_file()
    assert (journal.supply._count, len(journal.supply.ready)) == (4, 0)
    make.set()
    await store.aclose()


def test_a_file_is_made_of_zeros_and_found_again(
    directory: JournalFiles, disk: WatchedDisk
) -> None:
    made = directory.new(3, FILE_BYTES)
    (mark,) = directory.marks()
    assert mark == made.mark
    assert mark.number == 3
    assert directory.read(mark) == bytes(FILE_BYTES - PAGE) + encode_end(FILE_BYTES)
    opened = directory.open(mark, FILE_BYTES - PAGE)
    assert (opened.mark, opened.path, opened.at) == (mark, made.path, 0)
    assert opened.size == made.size == FILE_BYTES - PAGE
    order = [event[0] for event in disk.events if event[0] != "write"]
    assert order[0] == "allocate"
    assert order[-5:] == ["fill", "sync", "rename", "sync_directory", "sync"]


def test_a_recycled_file_has_its_new_number_only(directory: JournalFiles) -> None:
    made = directory.new(1, FILE_BYTES)
    directory.grow(made, 2 * FILE_BYTES)  # one block was larger than the file
    made.at = 2 * FILE_BYTES
    recycled = directory.recycled(2, made, FILE_BYTES)
    assert directory.marks() == [recycled.mark]
    assert recycled.mark.number == 2
    last_page = FILE_BYTES - PAGE
    assert (recycled.at, recycled.size, recycled.file) == (0, last_page, made.file)
    content = directory.read(recycled.mark)
    assert (len(content), find_end(content)) == (FILE_BYTES, last_page)


@pytest.mark.parametrize("operation", ["write", "sync", "truncate"])
def test_a_crash_while_a_file_is_cut_leaves_a_whole_one(
    directory: JournalFiles, disk: WatchedDisk, operation: str
) -> None:
    made = directory.new(1, FILE_BYTES)
    directory.grow(made, 2 * FILE_BYTES)
    disk.fail(operation, "*.journal")
    with pytest.raises(OSError, match="made to fail"):
        directory.recycled(2, made, FILE_BYTES)
    (mark,) = directory.marks()
    assert mark.number == 2
    assert find_end(directory.read(mark)) == 2 * FILE_BYTES


def test_a_file_that_cannot_be_marked_on_a_full_disk_stays_large(
    directory: JournalFiles, disk: WatchedDisk
) -> None:
    made = directory.new(1, FILE_BYTES)
    directory.grow(made, 2 * FILE_BYTES)
    disk.fail("write", "*.journal", errno.ENOSPC)
    recycled = directory.recycled(2, made, FILE_BYTES)
    assert recycled.size == find_end(directory.read(recycled.mark)) == 2 * FILE_BYTES


async def test_files_that_grew_for_large_blocks_are_small_again_behind_a_checkpoint(
    data: Path,
) -> None:
    options = LogOptions(journal_file_bytes=4 * MIB, journal_files_max=4, flush_seconds=3600)
    store, (partition,) = start_store(data, options=options)
    for _ in range(3):
        transaction = store.transaction()
        transaction.append(lambda: [append_large(partition) for _ in range(12)])
        transaction.end()
        while transaction.show_some():
            pass
        await durable(store, transaction.position)
    assert max(sizes(data)) > 47 * MIB
    for _ in range(3):  # the last one is full when something comes behind it
        await durable(store, append_large(partition))
        await until(lambda: not store._background.tasks)
    await until(lambda: set(sizes(data)) == {4 * MIB})
    await store.aclose()
    store, _ = start_store(data, options=options, epoch=2)
    await store.aclose()


def append_large(partition: PartitionLog) -> int:
    """Append a record of nearly 4 MiB; its journal position."""
    return partition.append(records([bytes(4 * MIB - 10_000)]), waited=True)


def sizes(data: Path) -> list[int]:
    """Of the journal's files. One may be removed while they are listed."""
    found = []
    for path in (data / "journal").glob("*.journal"):
        with suppress(FileNotFoundError):
            found.append(path.stat().st_size)
    return found


@pytest.mark.parametrize("operation", ["open", "allocate"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_file_that_finds_no_room_leaves_nothing(
    directory: JournalFiles, disk: WatchedDisk, tmp_path: Path, operation: str, number: int
) -> None:
    disk.fail(operation, "*.new", number)
    with pytest.raises(DiskFull):
        directory.new(1, FILE_BYTES)
    assert list(tmp_path.iterdir()) == []
    disk.repair()
    directory.new(1, FILE_BYTES)
    assert [mark.number for mark in directory.marks()] == [1]


def test_a_file_that_finds_no_descriptor_can_be_made_later(
    directory: JournalFiles, disk: WatchedDisk, tmp_path: Path
) -> None:
    disk.fail("open", "*.new", errno.EMFILE)
    with pytest.raises(DiskFull):
        directory.new(1, FILE_BYTES)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("operation", ["open", "allocate", "fill", "rename", "sync_directory"])
def test_an_error_of_the_disk_is_no_lack_of_room(
    directory: JournalFiles, disk: WatchedDisk, operation: str
) -> None:
    disk.fail(operation, "*", errno.EIO)
    with pytest.raises(OSError, match="made to fail"):
        directory.new(1, FILE_BYTES)


def test_a_full_disk_that_shows_while_filling_is_final(
    directory: JournalFiles, disk: WatchedDisk
) -> None:
    disk.fail("fill", "*.new", errno.ENOSPC)
    with pytest.raises(OSError, match="made to fail"):
        directory.new(1, FILE_BYTES)


def test_growing_keeps_what_is_there_and_is_undone_without_room(
    directory: JournalFiles, disk: WatchedDisk
) -> None:
    file = directory.new(1, FILE_BYTES)
    disk.write(file.file, 0, [b"block"])
    directory.grow(file, FILE_BYTES + 100)
    size = disk.size(file.file)
    assert size == FILE_BYTES + 2 * PAGE
    assert find_end(directory.read(file.mark)) == file.size == FILE_BYTES + PAGE
    disk.capacity = 2 * FILE_BYTES
    with pytest.raises(DiskFull):
        directory.grow(file, 3 * FILE_BYTES)
    assert disk.size(file.file) == size
    assert find_end(directory.read(file.mark)) == file.size == FILE_BYTES + PAGE
    assert directory.read(file.mark)[:5] == b"block"


def test_what_an_earlier_run_did_not_finish_is_removed(
    directory: JournalFiles, tmp_path: Path
) -> None:
    made = directory.new(1, FILE_BYTES)
    (tmp_path / "00000000000000000002.new").write_bytes(b"half")
    directory.remove_unfinished()
    assert list(tmp_path.iterdir()) == [made.path]


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
    assert blocks[1].committed == position
    assert store.journal._mark_timer is None  # no other one is under way
    await store.aclose()


async def test_a_file_that_grew_for_a_large_commit_is_whole(data: Path, disk: WatchedDisk) -> None:
    store, (partition,) = start_store(data, disk=disk)
    await durable(store, append(partition, 1))
    await until(lambda: bool(store.journal.supply.ready))
    # A full file comes back, under another name and with another size, as soon as it is flushed
    _, come_back = disk.hold("rename", "*.journal")
    await durable(store, partition.append(records([b"x" * 3 * MIB]), waited=True))
    paths = list((data / "journal").glob("*.journal"))
    for path in paths:
        content = path.read_bytes()
        assert find_end(content) == len(content) - PAGE
    assert max(path.stat().st_size for path in paths) > 3 * MIB
    come_back.set()
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


def test_a_file_that_cannot_be_removed_for_good_keeps_all_behind_it(
    directory: JournalFiles, disk: WatchedDisk, tmp_path: Path
) -> None:
    first, second, third, fourth = (directory.new(number, FILE_BYTES) for number in range(1, 5))
    directory.remove(first)
    assert directory.marks() == [second.mark, third.mark, fourth.mark]
    assert disk.events[-1] == ("sync_directory", tmp_path)
    disk.fail("sync_directory", "*")
    directory.remove(second)
    disk.repair()
    directory.remove(third)
    assert third.mark in directory.marks()
    with pytest.raises(OSError, match=r"could not be recycled: .*sync_directory"):
        directory.recycled(5, fourth, FILE_BYTES)


def test_a_file_that_cannot_be_closed_is_removed_nevertheless(
    directory: JournalFiles, disk: WatchedDisk
) -> None:
    first, second = (directory.new(number, FILE_BYTES) for number in (1, 2))
    disk.fail("close", "*")
    directory.remove(first)
    disk.repair()
    assert directory.marks() == [second.mark]
    assert directory.recycled(3, second, FILE_BYTES).mark.number == 3
