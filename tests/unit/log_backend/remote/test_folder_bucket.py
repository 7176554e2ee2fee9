"""A bucket that is a folder. That of S3 is tested on a server: scenarios/storage/test_remote_storage.py."""

from contextlib import closing
from pathlib import Path

import pytest
from unit.log_backend.watched_disk import WatchedDisk

from routelog.log_backend.doors.disk import SystemDisk
from routelog.log_backend.remote.bucket import BucketFailed, NoObject
from routelog.log_backend.remote.folder_bucket import FolderBucket
from routelog.log_backend.remote.remote_segment import leftovers, stored_segments


def test_objects_are_written_read_listed_and_removed(tmp_path: Path) -> None:
    bucket = FolderBucket(SystemDisk(), tmp_path / "a place")
    assert bucket.folders("") == []
    assert bucket.objects("none") == {}
    bucket.write("v/q-0/1.log", [b"abc", memoryview(b"def")], 6)
    bucket.write("OWNER", [b"me"], 2)
    assert (bucket.folders(""), dict(bucket.objects(""))) == (["v"], {"OWNER": 2})
    assert bucket.folders("v") == ["q-0"]
    with closing(bucket.open("v/q-0/1.log")) as found:
        assert (found.size, bytes(found.read(1, 3)), bytes(found.read(5, 9))) == (6, b"bcd", b"f")
    bucket.write("v/q-0/1.log", [b"x"], 1)
    assert dict(bucket.objects("v/q-0")) == {"1.log": 1}
    bucket.remove("v/q-0/1.log")
    bucket.remove("v/q-0/1.log")
    with pytest.raises(NoObject):
        bucket.open("v/q-0/1.log")
    bucket.remove_folder("v/q-0")
    bucket.remove_folder("v/q-0")
    assert bucket.folders("v") == []


def test_a_write_that_breaks_off_leaves_what_was_there(tmp_path: Path) -> None:
    bucket = FolderBucket(SystemDisk(), tmp_path)
    bucket.write("v/one", [b"whole"], 5)
    with pytest.raises(BucketFailed, match="2 bytes came, not 7"):
        bucket.write("v/one", [b"ha"], 7)

    def pieces():
        yield b"ha"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bucket.write("v/one", pieces(), 7)
    assert dict(bucket.objects("v")) == {"one": 5}
    assert [path.name for path in (tmp_path / "v").iterdir()] == ["one"]
    with closing(bucket.open("v/one")) as found:
        assert bytes(found.read(0, 9)) == b"whole"


def test_what_is_written_is_synced_before_it_has_its_name(
    tmp_path: Path, disk: WatchedDisk
) -> None:
    FolderBucket(disk, tmp_path).write("v/one", [b"x"], 1)
    calls = [name for name, _ in disk.events if name in ("sync", "rename", "sync_directory")]
    assert calls[-3:] == ["sync", "rename", "sync_directory"]


def test_what_a_crash_left_half_written_is_listed_and_of_no_segment(tmp_path: Path) -> None:
    bucket = FolderBucket(SystemDisk(), tmp_path)
    bucket.write("v/00000000000000000000-1-1.log", [b"x"], 1)
    (tmp_path / "v" / "00000000000000000007-1-2.log.part").write_bytes(b"ha")
    objects = bucket.objects("v")
    assert stored_segments(objects) == []
    assert "00000000000000000007-1-2.log.part" in list(leftovers(objects, [], 1))
