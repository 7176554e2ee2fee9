import os
import random
from pathlib import Path

import pytest
from unit.log_backend.log_records import TIME, batch, bodies_of, encoded

from routelog.log_backend.doors.disk import SystemDisk
from routelog.log_backend.records.record_batch import RecordBatch
from routelog.log_backend.segments.segment import (
    INDEX_INTERVAL_BYTES,
    READ_BYTES,
    OpenedSegment,
    Segment,
    SegmentDamaged,
    open_active,
    open_sealed,
    read_batches,
)

BASE = 100
DISK = SystemDisk()


def write(
    directory: Path, batches: list[RecordBatch], *, indexed: bool = True
) -> tuple[Path, Segment]:
    """A segment file of batches, with its index files."""
    path = directory / f"{BASE:020d}.log"
    segment = Segment(path, BASE)
    with path.open("wb") as file:
        for each in batches:
            segment.add(each, file.tell(), len(encoded(each)))
            file.write(encoded(each))
    if indexed:
        for index_path, content in segment.index_files():
            index_path.write_bytes(content)
    return path, segment


def many(count: int = 60, size: int = 300) -> list[RecordBatch]:
    return [
        batch([b"%d" % number + b"x" * size] * 2, BASE + 2 * number, time=TIME + number)
        for number in range(count)
    ]


def offsets(batches: list[RecordBatch]) -> list[int]:
    return [each.base_offset for each in batches]


@pytest.mark.parametrize("indexed", [True, False])
def test_every_offset_is_found(tmp_path: Path, indexed: bool) -> None:
    batches = many()
    path, _ = write(tmp_path, batches, indexed=indexed)
    opened = sealed(path)
    segment = opened.segment
    assert (opened.gone, opened.damage, opened.unindexed) == ([], None, not indexed)
    assert (segment.base_offset, segment.end_offset) == (BASE, BASE + 120)
    assert segment.size == segment.written_size == path.stat().st_size
    assert segment.written_end == segment.end_offset
    for offset in range(BASE, BASE + 120):
        position = segment.position_of(offset)
        found = read_batches(DISK, path, position, segment.size, offset)
        assert found[0].base_offset <= offset < found[0].end_offset
        assert offsets(found) == offsets(batches[(offset - BASE) // 2 :])


def test_the_index_is_sparse(tmp_path: Path) -> None:
    path, _ = write(tmp_path, many())
    entries = (path.with_suffix(".index").stat().st_size - 40) // 8
    assert entries <= path.stat().st_size // INDEX_INTERVAL_BYTES + 1
    assert path.with_suffix(".timeindex").stat().st_size == entries * 12


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("change", ["missing", "short", "zero", "long", "swapped"])
def test_an_index_that_does_not_fit_is_built_again(
    tmp_path: Path, suffix: str, change: str
) -> None:
    batches = many()
    path, _ = write(tmp_path, batches)
    index = path.with_suffix(suffix)
    content = index.read_bytes()
    other = {
        "missing": b"",
        "short": content[:-5],
        "zero": bytes(len(content)),
        "long": content + content[-12:],
        "swapped": content[:8] + content[8:][::-1],
    }[change]
    index.write_bytes(other)
    if change == "missing":
        index.unlink()
    opened = sealed(path)
    segment = opened.segment
    assert segment.end_offset == BASE + 120
    assert opened.unindexed
    assert opened.damage is None
    for offset in (BASE, BASE + 61, BASE + 119):
        found = read_batches(DISK, path, segment.position_of(offset), segment.size, offset)
        assert found[0].base_offset <= offset < found[0].end_offset


def test_transient_records_of_a_sealed_segment_are_gone(tmp_path: Path) -> None:
    batches = [batch([b"x"] * 5, BASE + 5 * n, persistent=n % 2 == 0) for n in range(4)]
    path, _ = write(tmp_path, batches)
    opened = sealed(path, BASE + 20)
    assert opened.gone == [(BASE + 5, BASE + 10), (BASE + 15, BASE + 20)]
    assert opened.segment.end_offset == BASE + 20


@pytest.mark.parametrize("indexed", [True, False])
def test_a_sealed_segment_that_is_cut_off_is_damaged(tmp_path: Path, indexed: bool) -> None:
    path, _ = write(tmp_path, many(), indexed=indexed)
    whole = path.read_bytes()
    size = len(encoded(many()[0]))
    for kept in (
        len(whole) - 1,
        *reversed(range(3 * size, len(whole), 53)),
        *reversed(range(3 * size)),
    ):
        os.truncate(path, kept)  # written anew, it would wait for the disk
        opened = sealed(path)
        if not indexed and kept and kept % size == 0:
            continue  # nothing says that there was more
        assert opened.damage is not None, kept
        assert opened.damage.first == BASE + 2 * (kept // size)
        assert opened.damage.position <= kept
    path.write_bytes(whole + whole[:size])
    assert sealed(path).damage is not None


def test_a_sealed_segment_that_another_one_follows_than_its_index_says_is_damaged(
    tmp_path: Path,
) -> None:
    path, _ = write(tmp_path, many())
    assert sealed(path, BASE + 120).damage is None
    for next_base in (BASE + 121, BASE + 500):
        damage = sealed(path, next_base).damage
        assert damage is not None
        assert (damage.first, damage.reason) == (
            BASE + 120,
            f"the segment of offset {BASE + 120}, which follows it, is missing",
        )


def test_a_sealed_segment_that_overlaps_the_next_is_damaged(tmp_path: Path) -> None:
    path, _ = write(tmp_path, many())
    damage = sealed(path, BASE + 60).damage
    assert damage is not None
    assert "overlaps" in damage.reason


@pytest.mark.parametrize("indexed", [True, False])
def test_a_segment_under_another_name_is_damaged(tmp_path: Path, indexed: bool) -> None:
    path, _ = write(tmp_path, many(5), indexed=indexed)
    for base in (BASE - 10, BASE + 2):
        other = tmp_path / f"{base:020d}.log"
        other.write_bytes(path.read_bytes())
        for suffix in (".index", ".timeindex"):
            if indexed:
                other.with_suffix(suffix).write_bytes(path.with_suffix(suffix).read_bytes())
        opened = open_sealed(DISK, other, base, BASE + 10)
        assert opened.damage is not None
        opened = open_active(DISK, other, base, BASE + 10)
        assert opened.damage is not None
        assert other.read_bytes() == path.read_bytes()


def test_a_batch_that_is_there_twice_is_damage(tmp_path: Path) -> None:
    batches = many(5)
    path, _ = write(tmp_path, [*batches, batches[4]], indexed=False)
    damage = sealed(path).damage
    assert damage is not None
    assert (damage.first, damage.reason) == (BASE + 10, "offsets go backwards")
    assert open_active(DISK, path, BASE, BASE + 11).damage is not None


def sealed(path: Path, next_base: int = BASE + 120) -> OpenedSegment:
    return open_sealed(DISK, path, BASE, next_base)


def test_damage_is_found_when_a_batch_is_read(tmp_path: Path) -> None:
    path, segment = write(tmp_path, many(10))
    whole = path.read_bytes()
    choice = random.Random(5)
    for place in [0, 5, 64, len(whole) - 9, *(choice.randrange(len(whole)) for _ in range(60))]:
        damaged = bytearray(whole)
        damaged[place] ^= 1 << choice.randrange(8)
        path.write_bytes(damaged)
        size = len(whole) // 10
        before = read_batches(DISK, path, 0, segment.size, BASE) if place >= size else []
        assert offsets(before) == [BASE + 2 * number for number in range(place // size)]
        with pytest.raises(SegmentDamaged) as raised:
            read_batches(DISK, path, 0, segment.size, BASE + 2 * (place // size), BASE)
        assert raised.value.position == place // size * size
        assert raised.value.first == BASE + 2 * (place // size)
        path.write_bytes(whole)


def test_a_read_is_bounded_but_one_batch_is_always_read(tmp_path: Path) -> None:
    large = READ_BYTES * 2 // 3
    batches = [batch([b"x" * large], BASE + number) for number in range(5)]
    path, segment = write(tmp_path, batches)
    assert offsets(read_batches(DISK, path, 0, segment.size, BASE)) == [BASE, BASE + 1]
    huge = [batch([b"y" * 3 * READ_BYTES], BASE), batch([b"z"], BASE + 1)]
    path, segment = write(tmp_path, huge)
    (found,) = read_batches(DISK, path, 0, segment.size, BASE)
    assert bodies_of(found) == [b"y" * 3 * READ_BYTES]


def test_a_read_ends_where_it_is_told_to(tmp_path: Path) -> None:
    path, _ = write(tmp_path, many(10))
    size = len(encoded(many()[0]))
    assert offsets(read_batches(DISK, path, 0, 3 * size, BASE)) == [BASE, BASE + 2, BASE + 4]


def test_an_offset_that_no_batch_holds_leads_to_the_next(tmp_path: Path) -> None:
    batches = [batch([b"x"] * 2, BASE), batch([b"y"] * 2, BASE + 50)]
    path, segment = write(tmp_path, batches)
    assert offsets(read_batches(DISK, path, 0, segment.size, BASE + 10)) == [BASE + 50]
    assert read_batches(DISK, path, 0, segment.size, BASE + 52) == []


# The active segment


def test_an_active_segment_is_read_whole_with_its_gaps(tmp_path: Path) -> None:
    batches = [
        batch([b"x"] * 2, BASE),
        batch([b"y"] * 2, BASE + 5, persistent=False),
        batch([b"z"], BASE + 9),
    ]
    path, _ = write(tmp_path, batches)
    opened = open_active(DISK, path, BASE, BASE + 10)
    assert opened.gone == [(BASE + 2, BASE + 5), (BASE + 5, BASE + 7), (BASE + 7, BASE + 9)]
    segment = opened.segment
    assert segment.end_offset == segment.written_end == BASE + 10


def test_a_torn_tail_is_cut_back_to_the_last_whole_batch(tmp_path: Path) -> None:
    batches = many(4, size=40)
    path, _ = write(tmp_path, batches)
    whole = path.read_bytes()
    size = len(whole) // 4
    for kept in range(len(whole) + 1):
        path.write_bytes(whole[:kept])
        opened = open_active(DISK, path, BASE, 0)
        segment = opened.segment
        assert opened.torn == kept % size
        assert segment.end_offset == BASE + 2 * (kept // size)
        assert path.stat().st_size == segment.size == kept // size * size


@pytest.mark.parametrize("garbage", [bytes(5000), b"\xff" * 100, b"RLB1" + bytes(100)])
def test_what_follows_the_last_whole_batch_is_cut_off(tmp_path: Path, garbage: bytes) -> None:
    path, _ = write(tmp_path, many(4))
    whole = path.read_bytes()
    path.write_bytes(whole + garbage)
    segment = open_active(DISK, path, BASE, BASE + 8).segment
    assert segment.end_offset == BASE + 8
    assert path.read_bytes() == whole


def test_whole_batches_behind_a_damaged_unsynced_one_are_cut_off(tmp_path: Path) -> None:
    path, _ = write(tmp_path, many(4))
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 2 + 70] ^= 1
    path.write_bytes(whole)
    segment = open_active(DISK, path, BASE, BASE + 4).segment
    assert segment.end_offset == BASE + 4
    assert path.stat().st_size == len(whole) // 2


def test_damage_below_the_synced_offset_is_no_torn_tail(tmp_path: Path) -> None:
    path, _ = write(tmp_path, many(4))
    whole = path.read_bytes()
    for place in (0, len(whole) // 4 + 20, len(whole) // 2 + 70, len(whole) - 9):
        damaged = bytearray(whole)
        damaged[place] ^= 1
        path.write_bytes(damaged)
        damage = open_active(DISK, path, BASE, BASE + 8).damage
        assert damage is not None
        assert damage.first == BASE + 2 * (place * 4 // len(whole))
        assert path.read_bytes() == damaged


@pytest.mark.parametrize("kept", [0, 1, 2, 3])
def test_missing_batches_below_the_synced_offset_are_damage(tmp_path: Path, kept: int) -> None:
    path, _ = write(tmp_path, many(4))
    whole = path.read_bytes()
    path.write_bytes(whole[: kept * len(whole) // 4])
    damage = open_active(DISK, path, BASE, BASE + 8).damage
    assert damage is not None
    assert damage.first == BASE + 2 * kept


def test_what_is_only_planned_is_not_read(tmp_path: Path) -> None:
    segment = Segment(tmp_path / "x.log", BASE)
    segment.add(batch([b"x"], BASE), 0, 100)
    assert (segment.size, segment.end_offset) == (100, BASE + 1)
    assert (segment.written_size, segment.written_end) == (0, BASE)
    segment.written()
    assert (segment.written_size, segment.written_end) == (100, BASE + 1)


def test_a_time_leads_to_an_entry_close_before_its_first_batch(tmp_path: Path) -> None:
    batches = [
        batch([bytes(900)], BASE + number, time=TIME + number // 3 * 10) for number in range(90)
    ]
    _, segment = write(tmp_path, batches)
    size = len(encoded(batches[0]))
    for time in range(TIME - 5, TIME + 320, 5):
        wanted = next((each for each in batches if each.records.time >= time), None)
        found = segment.offset_at(time)
        behind = BASE + 90 if wanted is None else wanted.base_offset
        assert BASE <= found <= behind
        assert (behind - found) * size <= 2 * INDEX_INTERVAL_BYTES + 3 * size
    for each in batches:
        found = segment.time_at(each.base_offset)
        assert TIME <= found <= each.records.time
        assert (each.records.time - found) // 10 * 3 * size <= INDEX_INTERVAL_BYTES + 3 * size
    empty = Segment(tmp_path / "none.log", 7)
    assert (empty.offset_at(TIME), empty.time_at(7)) == (7, 0)


def test_batches_that_were_not_written_are_forgotten(tmp_path: Path) -> None:
    batches = many()
    segment = Segment(tmp_path / "s.log", 0)

    def add(chosen: list[RecordBatch]) -> None:
        for each in chosen:
            segment.add(each, segment.size, len(encoded(each)))

    add(batches[:20])
    index, state = segment.index_files(), (segment.end_offset, segment.size, segment.last_time)
    mark = segment.mark()
    add([*batches[20:], batch([b"x"], batches[-1].end_offset, persistent=False)])
    assert segment.index_files() != index
    segment.restore(mark)
    assert segment.index_files() == index
    assert (segment.end_offset, segment.size, segment.last_time) == state
    assert not segment.transient


def test_batches_are_planned_as_far_as_they_fit() -> None:
    batches = [batch([b"x" * 1_000] * 2, BASE + 2 * number, time=number) for number in range(9)]
    size = batches[0].records.batch_bytes
    planned, added = Segment(Path("nowhere"), BASE), Segment(Path("nowhere"), BASE)
    assert planned.append_until_full(batches, 0, 3 * size) == 3
    assert (planned.end_offset, planned.size, planned.last_time) == (BASE + 6, 3 * size, 2)
    assert planned.append_until_full(batches, 3, 3 * size) == 3
    assert planned.append_until_full(batches, 3, 8 * size) == 8
    for each in batches[:8]:
        added.add(each, added.size, size)
    assert (planned.mark(), planned.index_files()) == (added.mark(), added.index_files())
    assert planned.unsynced


def test_an_empty_segment_has_room_for_any_batch() -> None:
    segment = Segment(Path("nowhere"), BASE)
    batches = [batch([b"x" * 1_000], BASE), batch([b"x"], BASE + 1)]
    assert segment.append_until_full(batches, 0, 1) == 1
    assert segment.append_until_full(batches, 1, 1) == 1
