"""The number of a data directory."""

from pathlib import Path

import pytest

from routelog.log_backend import SystemDisk
from routelog.mirror_cluster.node.incarnation import (
    IncarnationUnreadable,
    read_incarnation,
    renew_incarnation,
)


def test_a_directory_keeps_its_number_until_it_is_wiped_or_renewed(tmp_path: Path) -> None:
    disk = SystemDisk()
    first = read_incarnation(tmp_path, disk)
    assert 0 < first < 2**53
    assert read_incarnation(tmp_path, disk) == first
    second = renew_incarnation(tmp_path, disk)
    assert read_incarnation(tmp_path, disk) == second != first
    (tmp_path / "incarnation").unlink()
    assert read_incarnation(tmp_path, disk) not in (first, second)


def test_a_start_that_ended_half_way_leaves_no_number(tmp_path: Path) -> None:
    (tmp_path / "incarnation.new").write_text("12345678901234567890")
    number = read_incarnation(tmp_path, SystemDisk())
    assert (tmp_path / "incarnation").read_text() == f"{number}\n"


def test_another_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "incarnation").write_text("new\n")
    with pytest.raises(IncarnationUnreadable, match="incarnation: expected a number, found b'new"):
        read_incarnation(tmp_path, SystemDisk())
