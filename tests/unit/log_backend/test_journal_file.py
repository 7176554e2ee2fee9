from pathlib import Path

import pytest
from unit.log_backend.log_records import records
from unit.log_backend.open_store import MIB, append, durable, start_store, until

from log_backend.disk import SystemDisk
from log_backend.journal_block import BLOCK_ALIGNMENT, JournalEntry, Settlement, encode_block
from log_backend.journal_file import (
    JournalDamaged,
    claims_block,
    encode_end,
    find_blocks,
    find_end,
    journal_numbers,
    journal_path,
)

PAGE = BLOCK_ALIGNMENT


def block(number: int, position: int) -> bytes:
    entry = JournalEntry(1, Settlement(0, [(position, position + 1)]))
    return encode_block(number, position, position - 1, [entry])


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


def test_blocks_are_found_behind_damage() -> None:
    content = bytearray(b"".join(block(5, position) for position in range(1, 6)) + bytes(PAGE))
    content[2 * PAGE + 50] ^= 1
    found = [(at, each.position) for at, each in find_blocks(content, 5)]
    assert found == [(0, 1), (PAGE, 2), (3 * PAGE, 4), (4 * PAGE, 5)]
    assert list(find_blocks(content, 6)) == []


def test_one_damaged_byte_does_not_hide_that_a_block_was_meant() -> None:
    content = block(5, 9)
    for at in range(len(content)):
        damaged = bytearray(content)
        damaged[at] ^= 0x40
        assert claims_block(damaged, 0, 5, 9)


@pytest.mark.parametrize("content", [bytes(PAGE), b"", b"RLJ1", block(4, 8), b"\xff" * PAGE])
def test_zeros_and_what_a_recycled_file_held_claim_nothing(content: bytes) -> None:
    assert not claims_block(bytearray(content), 0, 5, 9)


def test_names_are_numbers(tmp_path: Path) -> None:
    for number in (17, 3):
        journal_path(tmp_path, number).write_bytes(b"")
    (tmp_path / "00000000000000000018.new").write_bytes(b"")
    assert journal_numbers(SystemDisk(), tmp_path) == [3, 17]


async def test_an_idle_journal_vouches_for_its_last_commit_once(data: Path) -> None:
    store, (partition,) = start_store(data)
    position = append(partition, 2)
    await durable(store, position)
    await until(lambda: store.journal.durable == position + 1)
    (path,) = [path for path in (data / "journal").iterdir() if any(path.read_bytes()[:PAGE])]
    blocks = [each for _, each in find_blocks(bytearray(path.read_bytes()), int(path.stem))]
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
