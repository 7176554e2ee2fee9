"""Room on the disk that only metadata get."""

from pathlib import Path

import pytest
from unit.log_backend.watched_disk import WatchedDisk

from routelog.log_backend.doors.ballast import (
    BALLAST_BYTES,
    BALLAST_SHARE_MAX,
    CHANGE_BYTES,
    METADATA_BYTES,
    MIB,
    ROOM_TIMES_MIN,
    Ballast,
)

CAPACITY = BALLAST_BYTES * BALLAST_SHARE_MAX


@pytest.fixture
def disk() -> WatchedDisk:
    disk = WatchedDisk()
    disk.capacity = CAPACITY
    return disk


def leave(disk: WatchedDisk, directory: Path, free: int) -> None:
    """Somebody else fills the disk but for this."""
    disk.others = 0
    disk.others = disk.free_bytes(directory) - free


def size(ballast: Ballast) -> int:
    return ballast.path.stat().st_size


def test_it_takes_its_room_at_once(tmp_path: Path, disk: WatchedDisk) -> None:
    ballast = Ballast(tmp_path, disk, BALLAST_BYTES)
    assert size(ballast) == BALLAST_BYTES
    assert ballast.path.stat().st_blocks * 512 >= BALLAST_BYTES
    assert ballast.keep() == CAPACITY - BALLAST_BYTES


def test_it_is_a_part_of_a_small_disk(tmp_path: Path, disk: WatchedDisk) -> None:
    disk.capacity = 8 * MIB
    assert size(Ballast(tmp_path, disk, BALLAST_BYTES)) == 8 * MIB // BALLAST_SHARE_MAX


def test_none_is_made_where_none_is_wanted(tmp_path: Path, disk: WatchedDisk) -> None:
    ballast = Ballast(tmp_path, disk, 0)
    assert not ballast.path.exists()
    leave(disk, tmp_path, 0)
    assert ballast.make_room() == 0


def test_only_what_lacks_is_given_up(tmp_path: Path, disk: WatchedDisk) -> None:
    ballast = Ballast(tmp_path, disk, BALLAST_BYTES)
    leave(disk, tmp_path, CHANGE_BYTES)
    assert ballast.make_room() == CHANGE_BYTES
    assert size(ballast) == BALLAST_BYTES
    leave(disk, tmp_path, CHANGE_BYTES - 1)
    assert CHANGE_BYTES <= ballast.make_room() < 2 * CHANGE_BYTES
    assert BALLAST_BYTES - CHANGE_BYTES <= size(ballast) < BALLAST_BYTES
    leave(disk, tmp_path, 0)
    assert ballast.make_room(METADATA_BYTES) >= METADATA_BYTES
    assert size(ballast) >= BALLAST_BYTES - METADATA_BYTES - CHANGE_BYTES


def test_nothing_is_given_up_when_all_of_it_is_too_little(
    tmp_path: Path, disk: WatchedDisk
) -> None:
    ballast = Ballast(tmp_path, disk, BALLAST_BYTES)
    leave(disk, tmp_path, 0)
    assert ballast.make_room(BALLAST_BYTES + 1) == 0
    assert size(ballast) == BALLAST_BYTES


def test_it_is_made_whole_when_there_is_clearly_more_room(
    tmp_path: Path, disk: WatchedDisk
) -> None:
    ballast = Ballast(tmp_path, disk, BALLAST_BYTES)
    leave(disk, tmp_path, 0)
    ballast.make_room(METADATA_BYTES)
    left = size(ballast)
    leave(disk, tmp_path, ROOM_TIMES_MIN * BALLAST_BYTES - 1)
    ballast.keep()
    assert size(ballast) == left
    leave(disk, tmp_path, ROOM_TIMES_MIN * BALLAST_BYTES)
    ballast.keep()
    assert size(ballast) == BALLAST_BYTES


def test_room_that_others_take_meanwhile_leaves_it_as_it_was(
    tmp_path: Path, disk: WatchedDisk
) -> None:
    disk.fail("allocate", "ballast", 28)  # ENOSPC
    ballast = Ballast(tmp_path, disk, BALLAST_BYTES)
    assert size(ballast) == 0
    disk.repair()
    ballast.keep()
    assert size(ballast) == BALLAST_BYTES


def test_a_start_on_a_full_disk_gets_the_room_that_an_earlier_run_has_kept(
    tmp_path: Path, disk: WatchedDisk
) -> None:
    Ballast(tmp_path, disk, BALLAST_BYTES)
    leave(disk, tmp_path, 0)
    again = Ballast(tmp_path, disk, BALLAST_BYTES)
    assert disk.free_bytes(tmp_path) >= METADATA_BYTES
    assert size(again) == BALLAST_BYTES - METADATA_BYTES


def test_a_start_takes_all_of_it_when_it_is_too_little(tmp_path: Path, disk: WatchedDisk) -> None:
    Ballast(tmp_path, disk, MIB)
    leave(disk, tmp_path, 0)
    again = Ballast(tmp_path, disk, MIB)
    assert disk.free_bytes(tmp_path) == MIB
    assert size(again) == 0
