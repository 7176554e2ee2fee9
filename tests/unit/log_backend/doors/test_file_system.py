"""Which file systems are doubted."""

import pytest

from routelog.log_backend.doors.file_system import doubt


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "zfs", "f2fs", ""])
def test_a_local_disk_is_not_doubted(kind: str) -> None:
    assert doubt(kind) is None


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        ("nfs4", "server"),
        ("cifs", "server"),
        ("fuse.sshfs", "program"),
        ("fuse", "program"),
        ("overlay", "container"),
        ("tmpfs", "memory"),
    ],
)
def test_what_may_not_keep_a_synced_write_is_doubted_with_the_reason(kind: str, word: str) -> None:
    assert word in str(doubt(kind))
