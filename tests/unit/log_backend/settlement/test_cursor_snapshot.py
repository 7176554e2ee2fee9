import random

import pytest

from routelog.log_backend.metadata.metadata import Change
from routelog.log_backend.partitions.cursor import Cursor
from routelog.log_backend.settlement.cursor_snapshot import (
    COUNT_MAX,
    Marks,
    SnapshotDamaged,
    SnapshotWriter,
    cursor_number,
    partition_prefix,
    read_snapshot,
)
from routelog.log_backend.settlement.settled_chunk import (
    BITMAP_BYTES,
    CHUNK_OFFSETS,
    FULL,
    Bitmap,
    Runs,
)

WRITER = SnapshotWriter(5, 2)
SCATTERED = Bitmap(bytearray(random.Random(1).randbytes(BITMAP_BYTES)))
MARKS = Marks(1, 1 << 40, 3, 9)


def written() -> list[Change]:
    runs = Runs()
    runs.add(7, 9)
    runs.add(100, CHUNK_OFFSETS)
    return [
        WRITER.marks(MARKS),
        WRITER.settled(3, runs),
        WRITER.settled(4, FULL),
        WRITER.settled(5, SCATTERED),
        WRITER.settled(6, Bitmap(bytearray(b"\x55" * BITMAP_BYTES))),
        WRITER.counts(3, [(3 * CHUNK_OFFSETS, 3 * CHUNK_OFFSETS + 1, 7), (200_000, 262_144, 1)]),
    ]


def entries(changes: list[Change]) -> list[tuple[bytes, bytes]]:
    return [(change.key, change.value) for change in changes if change.value is not None]


def test_what_is_written_is_read() -> None:
    snapshot = read_snapshot(entries(written()))
    assert snapshot.marks == MARKS
    assert {
        number: list(chunk.runs())
        for number, chunk in snapshot.settled.items()
        if isinstance(chunk, Runs)
    } == {
        3: [(7, 9), (100, CHUNK_OFFSETS)],
        4: [(0, CHUNK_OFFSETS)],
    }
    bitmaps = [snapshot.settled[5], snapshot.settled[6]]
    assert [chunk.encode() for chunk in bitmaps] == [SCATTERED.encode(), b"\x55" * BITMAP_BYTES]
    assert snapshot.counts == {3: [(196_608, 196_609, 7), (200_000, 262_144, 1)]}


def test_nothing_is_the_beginning() -> None:
    assert read_snapshot([]).marks == Marks()


def test_keys_are_below_those_of_the_partition_and_tell_the_cursor() -> None:
    assert all(change.key.startswith(partition_prefix(5)) for change in written())
    assert {cursor_number(change.key) for change in written()} == {2}
    assert len({change.key for change in written()}) == len(written())


def test_an_entry_is_small_where_there_is_little_to_say() -> None:
    sizes = {change.key[-1]: len(change.value or b"") for change in written()[1:5]}
    assert sizes[3] == 8 + 3 * 2
    assert sizes[4] == 8 + 2
    assert sizes[5] == 8 + BITMAP_BYTES
    assert sizes[6] < 100


@pytest.mark.parametrize("number", range(len(written())))
def test_every_flipped_byte_of_a_value_is_detected(number: int) -> None:
    [(key, value)] = entries(written()[number : number + 1])
    for place in range(0, len(value), max(1, len(value) // 200)):
        damaged = bytearray(value)
        damaged[place] ^= 0x41
        with pytest.raises(SnapshotDamaged, match="cursor 2 of partition 5"):
            read_snapshot([(key, bytes(damaged))])


@pytest.mark.parametrize("number", range(len(written())))
def test_every_truncation_is_detected(number: int) -> None:
    [(key, value)] = entries(written()[number : number + 1])
    for size in range(0, len(value), max(1, len(value) // 200)):
        with pytest.raises(SnapshotDamaged):
            read_snapshot([(key, value[:size])])


def test_a_value_in_the_place_of_another_is_detected() -> None:
    (one, first), (two, second), *_ = entries(written())[1:]
    with pytest.raises(SnapshotDamaged, match="checksum"):
        read_snapshot([(one, second), (two, first)])


def test_a_damaged_snapshot_leaves_the_cursor_as_it_was() -> None:
    cursor = Cursor(2, None)
    good, *rest = entries(written())
    key, value = rest[0]
    with pytest.raises(SnapshotDamaged):
        cursor.restore([good, (key, value + b"\0")])
    assert (cursor.low_water, cursor.handed_out, cursor.settled.chunks) == (0, 0, {})


@pytest.mark.parametrize("rest", [b"s", b"s\0\0\0\0", b"x" + bytes(8), b"\0\0"])
def test_a_key_that_is_none_is_detected(rest: bytes) -> None:
    key, value = entries([WRITER.marks(MARKS)])[0]
    with pytest.raises(SnapshotDamaged):
        read_snapshot([(key + rest, value)])


def test_a_cut_key_has_no_cursor() -> None:
    with pytest.raises(SnapshotDamaged, match="cut off"):
        cursor_number(partition_prefix(5))


def test_a_count_beyond_the_format_stays_at_its_end() -> None:
    change = WRITER.counts(0, [(1, 2, 1 << 40)])
    assert read_snapshot(entries([change])).counts == {0: [(1, 2, COUNT_MAX)]}


def test_what_is_gone_is_deleted() -> None:
    assert WRITER.settled(3, None) == Change(written()[1].key, None)
    assert WRITER.counts(3, None) == Change(written()[5].key, None)
