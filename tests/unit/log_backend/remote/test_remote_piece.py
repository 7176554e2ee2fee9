"""Pieces of a segment in a bucket: few requests, whole batches, and damage that is told from what is whole."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from unit.log_backend.log_records import TIME, batch

from routelog.log_backend.doors.disk import SystemDisk
from routelog.log_backend.records.record_batch import RecordBatch
from routelog.log_backend.remote import remote_piece
from routelog.log_backend.remote.bucket import NoObject
from routelog.log_backend.remote.folder_bucket import FolderBucket, FolderObject
from routelog.log_backend.remote.remote_piece import (
    PieceDamaged,
    RemoteCopy,
    RemotePiece,
    read_index,
    read_piece,
)
from routelog.log_backend.remote.remote_segment import RemoteSegment, encode_remote_index
from routelog.log_backend.segments.compressed_segment import ZSTD, SegmentPacker
from routelog.log_backend.segments.segment import Segment

FOLDER = "v/q-0/1"
KIB = 1024
NEXT = 1_000  # behind a gap


class CountingBucket(FolderBucket):
    """Notes each read of a content: position and size."""

    def __init__(self, root: Path) -> None:
        super().__init__(SystemDisk(), root)
        self.requests: list[tuple[int, int]] = []

    def open(self, name: str) -> FolderObject:
        """See `Bucket`."""
        found = super().open(name)
        if name.endswith("log"):
            read, requests = found.read, self.requests

            def counted(position: int, size: int) -> bytearray:
                requests.append((position, size))
                return read(position, size)

            found.read = counted  # type: ignore[method-assign]
        return found


@pytest.fixture
def bucket(tmp_path: Path) -> CountingBucket:
    return CountingBucket(tmp_path)


def batches(count: int, size: int = 10 * KIB) -> list[RecordBatch]:
    """Two records each, a second apart."""
    return [
        batch([bytes([at]) * size] * 2, 2 * at, time=TIME + at * 1_000_000) for at in range(count)
    ]


def put(
    bucket: CountingBucket,
    content: list[RecordBatch],
    *,
    copy: int = 1,
    compressed: bool = False,
    next_base: int = NEXT,
) -> RemoteSegment:
    """A segment of these batches."""
    base = content[0].base_offset
    index = Segment(Path(f"{base}.log"), base, next_base=next_base)
    raw = bytearray()
    for each in content:
        encoded = each.header() + bytes(each.records.payload)
        index.add(each, len(raw), len(encoded))
        raw += encoded
    stored = bytes(raw)
    if compressed:
        packer, blocks = SegmentPacker(ZSTD, base), b""
        for first, end in index.blocks():
            blocks += b"".join(bytes(part) for part in packer.block(bytes(raw[first:end])))
        stored = packer.header() + blocks + packer.table()
    found = RemoteSegment(base, next_base, TIME, 1, copy, len(stored), compressed, base)
    bucket.write(f"{FOLDER}/{found.content_name}", [stored], len(stored))
    encoded = encode_remote_index(index)
    bucket.write(f"{FOLDER}/{found.index_name}", [encoded], len(encoded))
    return found


def change(bucket: CountingBucket, name: str, at: int, to: bytes = b"\xff") -> None:
    """Damage an object."""
    with closing(bucket.open(f"{FOLDER}/{name}")) as found:
        content = bytearray(found.read(0, found.size))
    content[at : at + len(to)] = to
    bucket.write(f"{FOLDER}/{name}", [content], len(content))


def bases(piece: RemotePiece) -> list[int]:
    return [each.base_offset for each in piece.batches]


@pytest.mark.parametrize("compressed", [False, True])
def test_pieces_follow_each_other_without_gap_or_overlap(
    bucket: CountingBucket, compressed: bool
) -> None:
    copy = RemoteCopy(put(bucket, batches(40), compressed=compressed), None)
    found, offset = [], 0
    while offset < NEXT:
        bucket.requests.clear()
        piece = read_piece(bucket, FOLDER, [copy], offset, 200 * KIB)
        copy = RemoteCopy(copy.segment, piece.index)
        found += bases(piece)
        assert piece.first == offset < piece.end
        assert len(bucket.requests) <= (3 if compressed else 1), "header, table, content"
        offset = piece.end
    assert found == list(range(0, 80, 2))
    assert offset == NEXT, "what lies behind the last batch was never stored"
    assert (piece.index.size, piece.index.end_offset) == (piece.index.size, 80)


def test_a_piece_begins_with_the_batch_that_holds_its_offset(bucket: CountingBucket) -> None:
    copy = RemoteCopy(put(bucket, batches(20)), None)
    assert bases(read_piece(bucket, FOLDER, [copy], 7, 1))[0] == 6
    last = read_piece(bucket, FOLDER, [copy], 39, KIB)
    assert (bases(last), last.end) == ([38], NEXT)
    behind = read_piece(bucket, FOLDER, [copy], 40, KIB)
    assert (bases(behind), behind.first, behind.end) == ([], 40, NEXT)


def test_a_batch_larger_than_a_request_comes_whole(bucket: CountingBucket) -> None:
    copy = RemoteCopy(put(bucket, batches(3, 500 * KIB)), None)
    piece = read_piece(bucket, FOLDER, [copy], 2, 10 * KIB)
    assert (bases(piece), piece.end) == ([2], 4)
    assert piece.batches[0].records.body(0) == b"\x01" * 500 * KIB


def test_a_batch_that_a_request_does_not_reach_waits_for_the_next_one(
    bucket: CountingBucket,
) -> None:
    copy = RemoteCopy(put(bucket, batches(4, 75 * KIB)), None)
    piece = read_piece(bucket, FOLDER, [copy], 0, 200 * KIB)
    assert (bases(piece), piece.end) == ([0], 2)
    assert len(bucket.requests) == 1


def test_what_is_whole_before_damage_is_given(bucket: CountingBucket) -> None:
    segment = put(bucket, batches(10))
    copy = RemoteCopy(segment, None)
    change(bucket, segment.content_name, 6 * 20 * KIB)  # in the body of the sixth or seventh
    piece = read_piece(bucket, FOLDER, [copy], 0, 1024 * KIB)
    bad = piece.end
    assert bases(piece) == list(range(0, bad, 2))
    assert bad in (10, 12)
    with pytest.raises(PieceDamaged) as raised:
        read_piece(bucket, FOLDER, [copy], bad, 1024 * KIB)
    assert (raised.value.first, raised.value.end) == (bad, bad + 2)
    assert bases(read_piece(bucket, FOLDER, [copy], bad + 2, 1024 * KIB))[0] == bad + 2


@pytest.mark.parametrize("compressed", [False, True])
def test_the_next_copy_is_read_where_one_is_damaged(
    bucket: CountingBucket, compressed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    content = batches(10)
    first = put(bucket, content)
    second = put(bucket, content[3:], copy=2, compressed=compressed)
    change(bucket, first.content_name, first.bytes // 2, b"\xff\x00\xff")
    copies = [RemoteCopy(first, None), RemoteCopy(second, None)]
    got: list[int] = []
    offset = 0
    while offset < 20:
        there = [each for each in copies if each.segment.base_offset <= offset]
        piece = read_piece(bucket, FOLDER, there, offset, 1024 * KIB)
        got += bases(piece)
        offset = piece.end
    assert got == list(range(0, 20, 2))
    assert first.content_name in caplog.text


@pytest.mark.parametrize("at", [0, 100])
def test_a_compressed_copy_that_is_cut_or_broken_is_damage(bucket: CountingBucket, at: int) -> None:
    segment = put(bucket, batches(10), compressed=True)
    change(bucket, segment.content_name, at)
    with pytest.raises(PieceDamaged):
        read_piece(bucket, FOLDER, [RemoteCopy(segment, None)], 0, KIB)


def test_a_content_of_another_size_than_its_index_says_is_damage(bucket: CountingBucket) -> None:
    segment = put(bucket, batches(10))
    with closing(bucket.open(f"{FOLDER}/{segment.content_name}")) as found:
        content = found.read(0, found.size - 1)
    bucket.write(f"{FOLDER}/{segment.content_name}", [content], len(content))
    with pytest.raises(PieceDamaged) as raised:
        read_piece(bucket, FOLDER, [RemoteCopy(segment, None)], 4, KIB)
    assert (raised.value.first, raised.value.end) == (4, NEXT)


@pytest.mark.parametrize("compressed", [False, True])
def test_an_index_is_thinned_and_a_damaged_one_is_built_again(
    bucket: CountingBucket, monkeypatch: pytest.MonkeyPatch, compressed: bool
) -> None:
    monkeypatch.setattr(remote_piece, "INDEX_STEP_BYTES", 50 * KIB)
    segment = put(bucket, batches(40), compressed=compressed)
    whole = read_index(bucket, FOLDER, segment, 100 * KIB)
    assert whole is not None
    assert whole.index_entries == 14, "of forty batches of 20 KiB every third"
    assert whole.offset_at(TIME + 20_000_000) <= 40
    change(bucket, segment.index_name, 60)
    built = read_index(bucket, FOLDER, segment, 100 * KIB)
    assert built is not None
    columns = [(each.position_of(at), each.size) for each in (whole, built) for at in range(80)]
    assert columns[:80] == columns[80:]
    assert (built.end_offset, built.last_time) == (80, segment.last_time)


def test_without_an_index_damage_within_the_content_leaves_none(bucket: CountingBucket) -> None:
    segment = put(bucket, batches(10))
    change(bucket, segment.index_name, 60)
    change(bucket, segment.content_name, 0)
    assert read_index(bucket, FOLDER, segment, KIB) is None


def test_a_copy_that_is_gone_is_no_damage(bucket: CountingBucket) -> None:
    segment = put(bucket, batches(3))
    bucket.remove(f"{FOLDER}/{segment.content_name}")
    with pytest.raises(NoObject):
        read_piece(bucket, FOLDER, [RemoteCopy(segment, None)], 0, KIB)
