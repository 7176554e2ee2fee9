"""The number of a data directory: one that was wiped has another, so nobody takes it for what it was."""

from pathlib import Path

from routelog.log_backend import INCARNATION_FILE, Disk, random_key
from routelog.mirror_cluster.node.kept_number import KeptNumber

_BITS = 53  # all that tools that read JSON as floating point know


def new_number() -> int:
    """A number that nobody else has drawn, for a data directory or a process."""
    return int.from_bytes(random_key()) >> (256 - _BITS)


def read_incarnation(directory: Path, disk: Disk) -> int:
    """The number of a directory, kept in its file `incarnation`; durable when it is drawn here.

    Raises:
        NumberUnreadable: the file holds something else.
    """
    number = _kept(directory, disk).read()
    return renew_incarnation(directory, disk) if number is None else number


def renew_incarnation(directory: Path, disk: Disk) -> int:
    """Give a directory another number: what it holds is not what it held."""
    number = new_number()
    _kept(directory, disk).write(number)
    return number


def _kept(directory: Path, disk: Disk) -> KeptNumber:
    return KeptNumber(directory / INCARNATION_FILE, disk)
