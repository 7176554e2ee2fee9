"""Names and index of what is in remote storage."""

from pathlib import Path

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

PLAIN = RemoteSegment(5, 10, 1_700_000_000_000_000, 100, False)
PACKED = RemoteSegment(10, 17, 1_700_000_000_000_001, 70, True)


def objects(*segments: RemoteSegment) -> dict[str, int]:
    found: dict[str, int] = {}
    for each in segments:
        found |= {each.content_name: each.bytes, each.index_name: 60}
    return found


def test_names_say_what_there_is() -> None:
    assert PLAIN.content_name == "00000000000000000005.log"
    assert PACKED.index_name == (
        "00000000000000000010-00000000000000000017-00001700000000000001.zlog.segment"
    )
    found = objects(PLAIN, PACKED)
    assert stored_segments(found) == [PLAIN, PACKED]
    assert list(leftovers(found, [PLAIN, PACKED])) == []
    directory = Path("data/logs/%2F/orders-3")
    assert partition_folder(directory, 12) == "%2F/orders-3/00000000000000000012"


def test_a_segment_is_there_when_both_of_its_objects_are() -> None:
    found = objects(PLAIN, PACKED)
    del found[PACKED.index_name]
    assert stored_segments(found) == [PLAIN]
    assert list(leftovers(found, [PLAIN])) == [PACKED.content_name]
    found = objects(PLAIN, PACKED)
    del found[PLAIN.content_name]
    assert stored_segments(found) == [PACKED]
    assert list(leftovers(found, [PACKED])) == [PLAIN.index_name]
    # The other form is not the one that was meant.
    assert stored_segments({PLAIN.index_name: 60, "00000000000000000005.zlog": 9}) == []


def test_the_longer_of_two_that_begin_alike_counts() -> None:
    longer = PLAIN._replace(next_base=12, bytes=120)
    found = objects(PLAIN) | objects(longer)
    assert stored_segments(found) == [longer]
    assert list(leftovers(found, [longer])) == [PLAIN.index_name]


def test_none_overlaps_another() -> None:
    assert stored_segments(objects(PLAIN, PACKED._replace(base_offset=9))) == [PLAIN]


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
