"""What a crash leaves of compression, and both forms behind one reader."""

from __future__ import annotations

from pathlib import Path

import pytest
from unit.log_backend.compressed_bytes import packed
from unit.log_backend.log_records import batch, bodies_of, encoded

from routelog.log_backend.doors.disk import SystemDisk
from routelog.log_backend.segments.compressed_segment import ZSTD
from routelog.log_backend.segments.log_directory import base_offsets, compressed_path, segment_path
from routelog.log_backend.segments.segment import SegmentDamaged, open_sealed, read_batches
from routelog.log_backend.segments.segment_file import open_segment_file
from routelog.log_backend.segments.segment_forms import leave_one_form

BATCHES = [batch([b"body %d" % number * 50] * 3, 10 + 3 * number) for number in range(4)]
PLAIN = b"".join(map(encoded, BATCHES))
COMPRESSED = packed(ZSTD, 10, [PLAIN[: len(PLAIN) // 2], PLAIN[len(PLAIN) // 2 :]])


def put(directory: Path, base: int, *, plain: bytes | None, compressed: bytes | None) -> Path:
    path = segment_path(directory, base)
    if plain is not None:
        path.write_bytes(plain)
    if compressed is not None:
        compressed_path(path).write_bytes(compressed)
    return path


def names(directory: Path) -> list[str]:
    return sorted(path.name.lstrip("0") for path in directory.iterdir())


def settle(directory: Path) -> list[str]:
    leave_one_form(SystemDisk(), directory, [path.name for path in directory.iterdir()])
    return names(directory)


def test_both_forms_of_a_segment_are_one_segment() -> None:
    stem = "0" * 18
    found = [f"{stem}10.log", f"{stem}10.zlog", f"{stem}22.zlog", f"{stem}30.log.bad", "1.zlog"]
    assert base_offsets(found) == [10, 22]


def test_of_a_sealed_segment_the_compressed_form_stays(tmp_path: Path) -> None:
    put(tmp_path, 10, plain=PLAIN, compressed=COMPRESSED)
    put(tmp_path, 22, plain=b"", compressed=None)
    assert settle(tmp_path) == ["10.zlog", "22.log"]
    assert settle(tmp_path) == ["10.zlog", "22.log"]


@pytest.mark.parametrize(
    "compressed",
    [b"", COMPRESSED[:-1], b"\0" * len(COMPRESSED), packed(ZSTD, 10, [PLAIN[:-8]])],
    ids=["empty", "cut off", "zeros", "of another segment"],
)
def test_a_compressed_form_that_is_not_whole_goes(tmp_path: Path, compressed: bytes) -> None:
    put(tmp_path, 10, plain=PLAIN, compressed=compressed)
    put(tmp_path, 22, plain=b"", compressed=None)
    assert settle(tmp_path) == ["10.log", "22.log"]


def test_of_the_newest_segment_the_form_that_is_written_stays(tmp_path: Path) -> None:
    put(tmp_path, 10, plain=PLAIN + b"more", compressed=COMPRESSED)
    assert settle(tmp_path) == ["10.log"]


def test_a_newest_segment_that_is_compressed_is_unpacked(tmp_path: Path) -> None:
    path = put(tmp_path, 10, plain=None, compressed=COMPRESSED)
    path.with_suffix(".new").write_bytes(b"from an earlier start" * 1_000)
    assert settle(tmp_path) == ["10.log"]
    assert path.read_bytes() == PLAIN


def test_a_newest_segment_that_cannot_be_unpacked_stays_as_it_is(tmp_path: Path) -> None:
    damaged = bytearray(COMPRESSED)
    damaged[100] ^= 1
    path = put(tmp_path, 10, plain=None, compressed=bytes(damaged))
    with pytest.raises(SegmentDamaged, match="the block fails its checksum") as caught:
        settle(tmp_path)
    assert caught.value.path == compressed_path(path)
    assert compressed_path(path).read_bytes() == damaged


# One reader for both forms


@pytest.mark.parametrize("form", ["plain", "compressed"])
def test_either_form_is_opened_and_read(tmp_path: Path, form: str) -> None:
    chosen = {"plain": None, "compressed": None} | {form: PLAIN if form == "plain" else COMPRESSED}
    path = put(tmp_path, 10, **chosen)
    disk = SystemDisk()
    file = open_segment_file(disk, path)
    assert file.size == len(PLAIN)
    assert file.read(0, 10**9) == PLAIN
    file.close()
    segment = open_sealed(disk, path, 10, 22).segment
    assert (segment.end_offset, segment.size) == (22, len(PLAIN))
    assert segment.compressed_bytes == (len(COMPRESSED) if form == "compressed" else None)
    for offset in range(10, 22):
        found = read_batches(disk, path, segment.position_of(offset), segment.size, offset)
        assert bodies_of(found[0]) == bodies_of(BATCHES[(offset - 10) // 3])


def test_a_segment_that_was_removed_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        open_segment_file(SystemDisk(), segment_path(tmp_path, 10))


def test_damage_names_the_file_that_has_it(tmp_path: Path) -> None:
    for at in range(len(COMPRESSED)):
        damaged = bytearray(COMPRESSED)
        damaged[at] ^= 0x80
        path = put(tmp_path, 10, plain=None, compressed=bytes(damaged))
        with pytest.raises(SegmentDamaged) as caught:
            read_batches(SystemDisk(), path, 0, len(PLAIN), 10)
        assert caught.value.path == compressed_path(path)


def test_a_compressed_segment_under_another_name_is_refused(tmp_path: Path) -> None:
    path = put(tmp_path, 11, plain=None, compressed=COMPRESSED)
    with pytest.raises(SegmentDamaged, match="names another segment"):
        open_segment_file(SystemDisk(), path)
