"""A data directory that follows another node: what marks it, and how it becomes a node's of its own."""

from pathlib import Path

from routelog.log_backend import (
    Disk,
    JournalExtent,
    Mark,
    journal_end,
    open_metadata,
    read_file,
    replace_file,
)

_COPY_FIRST = b"routelog follow\n"  # its content, until a copy has taken the place of a node's data
_FILE = "standby"  # there: a broker that began here would make blocks in an epoch of the node it followed


class NoStandby(Exception):
    """A data directory is no standby's."""


def mark_standby(data: Path, disk: Disk, *, copies_first: bool) -> None:
    """Say durably that a directory is a standby's, and whether a copy has to come first; its lock is held."""
    content = _COPY_FIRST if copies_first else b"routelog promote\n"
    replace_file(disk, data / _FILE, data / f"{_FILE}.new", content)


def copies_first(data: Path, disk: Disk) -> bool:
    """Whether the data of a standby's directory are those of the node that it was, of which a copy is to come.

    That node gave offsets that no journal tells of, to records that were not journaled.
    """
    return read_file(disk, data / _FILE) == _COPY_FIRST


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
