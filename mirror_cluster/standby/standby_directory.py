"""A data directory that follows another node: what marks it, and how it becomes a node's of its own."""

from pathlib import Path

from routelog.log_backend import (
    Disk,
    JournalExtent,
    Mark,
    journal_end,
    open_metadata,
    replace_file,
)

_FILE = "standby"  # there: a broker that began here would make blocks in an epoch of the node it followed


class NoStandby(Exception):
    """A data directory is no standby's."""


def mark_standby(data: Path, disk: Disk) -> None:
    """Say durably that a directory is a standby's; its lock is held."""
    if not is_standby(data, disk):
        replace_file(disk, data / _FILE, data / f"{_FILE}.new", b"routelog promote\n")


def is_standby(data: Path, disk: Disk) -> bool:
    """Whether a directory is a standby's."""
    return _FILE in disk.list_directory(data)


def promote(data: Path, disk: Disk) -> Mark:
    """Make a standby's directory that of a node on its own; its next start begins an epoch of its own.

    Returns:
        The last block that it has.

    Raises:
        NoStandby: it is none, or has nothing of its node yet; nothing was changed.
        NoDataDirectory, DirectoryLocked: it is no data directory, or a standby that runs has it.
        JournalDamaged, MetadataCorrupt, MetadataUnavailable, OSError: the data cannot be used.
    """
    if not is_standby(data, disk):
        raise NoStandby(f"{data} is no standby's: 'routelog follow' makes one")
    with open_metadata(data, disk, read_only=False) as metadata:
        end = journal_end(data / "journal", disk, JournalExtent(metadata))
        if end.position == 0:
            raise NoStandby(f"{data} has nothing of its node yet")
        disk.remove(data / _FILE)
        disk.sync_directory(data)
    return end
