"""The number of a data directory: one that was wiped has another, so nobody takes it for what it was.

data/incarnation    decimal digits and a line feed
"""

from pathlib import Path

from routelog.log_backend import Disk, random_key

_BITS = 53  # all that tools that read JSON as floating point know
_BYTES_MAX = 32


def new_number() -> int:
    """A number that nobody else has drawn, for a data directory or a process."""
    return int.from_bytes(random_key()) >> (256 - _BITS)


def read_incarnation(directory: Path, disk: Disk) -> int:
    """The number of a directory, which gets one that is durable if it has none.

    Raises:
        ValueError: the file holds something else.
    """
    path = directory / "incarnation"
    if path.name not in disk.list_directory(directory):
        return _begin(directory, disk)
    file = disk.open(path)
    try:
        return int(disk.read(file, 0, _BYTES_MAX))
    finally:
        disk.close(file)


def renew_incarnation(directory: Path, disk: Disk) -> int:
    """Give a directory another number: what it holds is not what it held."""
    return _begin(directory, disk)


def _begin(directory: Path, disk: Disk) -> int:
    number = new_number()
    begun = directory / "incarnation.new"
    file = disk.open(begun, create=True)
    try:
        disk.truncate(file, 0)
        disk.write(file, 0, (b"%d\n" % number,))
        disk.sync(file)
    finally:
        disk.close(file)
    disk.rename(begun, directory / "incarnation")
    disk.sync_directory(directory)
    return number
