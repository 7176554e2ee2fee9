"""Names and index of what is in remote storage."""

from pathlib import Path
from random import Random

from golden.log_formats import FOLDER
from unit.log_backend.log_records import records

from routelog.log_backend.records.record_batch import RecordBatch
from routelog.log_backend.remote.remote_segment import (
    RemoteSegment,
    decode_remote_index,
    encode_remote_index,
    leftovers,
    partition_folder,
    stored_segments,
)
from routelog.log_backend.segments.segment import Segment

PLAIN = RemoteSegment(5, 10, 1_700_000_000_000_000, 3, 1, 100, False, 5)
PACKED = RemoteSegment(10, 17, 1_700_000_000_000_001, 4, 12, 70, True, 10)
NEWEST = 4  # epoch


def objects(*segments: RemoteSegment) -> dict[str, int]:
    found: dict[str, int] = {}
    for each in segments:
        found |= {each.content_name: each.bytes, each.index_name: 60}
    return found


def test_names_say_what_there_is() -> None:
    assert PLAIN.content_name == "00000000000000000005-3-1.log"
    assert PACKED.index_name == (
        "00000000000000000010-4-12-00000000000000000017-00001700000000000001.zlog.segment"
    )
    found = objects(PLAIN, PACKED)
    assert stored_segments(found) == [PLAIN, PACKED]
    assert list(leftovers(found, [PLAIN, PACKED], NEWEST)) == []
    directory = Path("data/logs/%2F/orders-3")
    assert partition_folder(directory, 12) == "%2F/orders-3/00000000000000000012"


def test_a_segment_is_there_when_both_of_its_objects_are() -> None:
    found = objects(PLAIN, PACKED)
    del found[PACKED.index_name]
    assert stored_segments(found) == [PLAIN]
    assert list(leftovers(found, [PLAIN], NEWEST)) == [PACKED.content_name]
    found = objects(PLAIN, PACKED)
    del found[PLAIN.content_name]
    assert stored_segments(found) == [PACKED]
    assert list(leftovers(found, [PACKED], NEWEST)) == [PLAIN.index_name]
    # Another form, epoch or copy is not the one that was meant.
    stem = f"{5:020d}"
    for other in (f"{stem}-3-1.zlog", f"{stem}-4-1.log", f"{stem}-3-2.log"):
        assert stored_segments({PLAIN.index_name: 60, other: 9}) == []


def test_a_segment_counts_from_where_the_one_before_it_ends() -> None:
    longer = PACKED._replace(base_offset=7, next_base=20)
    assert stored_segments(objects(longer, PLAIN)) == [PLAIN, longer._replace(first_offset=10)]
    alike = PLAIN._replace(next_base=12, epoch=4)
    assert stored_segments(objects(alike, PLAIN)) == [PLAIN, alike._replace(first_offset=10)]
    behind_a_gap = PACKED._replace(base_offset=11, first_offset=11)
    assert stored_segments(objects(behind_a_gap, PLAIN)) == [PLAIN, behind_a_gap]


def test_a_segment_that_adds_nothing_does_not_count_whatever_comes_later() -> None:
    wide = RemoteSegment(0, 100, 1, 1, 1, 9, False, 0)
    inside = RemoteSegment(10, 90, 1, 2, 1, 9, False, 10)
    again = wide._replace(epoch=3)
    found = objects(wide, inside, again)
    assert stored_segments(found) == [wide]
    assert set(leftovers(found, [wide], 3)) == set(objects(inside, again))
    late = RemoteSegment(5, 120, 1, 1, 2, 9, False, 5)
    assert stored_segments(found | objects(late)) == [wide, late._replace(first_offset=100)]


def test_segments_together_have_each_offset_that_any_of_them_has() -> None:
    random = Random(7)
    for _ in range(200):
        there = []
        for copy in range(random.randrange(1, 9)):
            base = random.randrange(30)
            end = base + random.randrange(1, 12)
            there.append(RemoteSegment(base, end, end, random.randrange(4), copy, 1, False, base))
        counted = stored_segments(objects(*there))
        offsets = [o for each in counted for o in range(each.first_offset, each.next_base)]
        assert offsets == sorted(
            {o for each in there for o in range(each.base_offset, each.next_base)}
        )


def test_objects_of_later_epochs_and_unknown_ones_are_no_leftovers() -> None:
    half = [f"{5:020d}-{epoch}-1.log{part}" for epoch in (3, 4) for part in ("", ".part")]
    found = dict.fromkeys([*half, "OWNER", f"{5:020d}.log", "notes"], 1)
    assert list(leftovers(found, [], 3)) == half[:2]
    assert list(leftovers(found, [], 4)) == half


def test_the_index_object_is_both_index_files() -> None:
    segment = Segment(Path("00000000000000368769.log"), 368_769)
    batch = RecordBatch(records([b"a", b"b"]), 368_769, 1)
    segment.add(batch, 0, batch.records.batch_bytes)
    segment.next_base = 368_771
    content = encode_remote_index(segment)
    index = decode_remote_index(content)
    assert index is not None
    assert (index.size, index.end_offset, index.next_base) == (segment.size, 368_771, 368_771)
    assert (list(index.offsets), list(index.positions)) == ([0], [0])
    for end in range(len(content)):
        assert decode_remote_index(content[:end]) is None
    for at in range(len(content)):
        broken = bytearray(content)
        broken[at] ^= 1
        assert decode_remote_index(bytes(broken)) is None, at


def test_the_golden_index_files_are_one_index_object() -> None:
    parts = [(FOLDER / f"segment-2{suffix}").read_bytes() for suffix in (".index", ".timeindex")]
    index = decode_remote_index(b"".join(parts))
    assert index is not None
    assert len(index.offsets) == len(index.times) > 0
