"""The number of a data directory: one that was wiped has another, so nobody takes it for what it was."""

from pathlib import Path

from routelog.log_backend import INCARNATION_FILE, Disk, random_key, read_file, replace_file

_BITS = 53  # all that tools that read JSON as floating point know
SHOWN_BYTES_MAX = 40  # of what is no number, in an error


class IncarnationUnreadable(OSError):
    """The file holds no number: it is damaged, or somebody has edited it."""


def new_number() -> int:
    """A number that nobody else has drawn, for a cluster, a data directory or a process."""
    return int.from_bytes(random_key()) >> (256 - _BITS)


def read_incarnation(directory: Path, disk: Disk) -> int:
    """The number of a directory, in decimal digits in its file `incarnation`; durable when it is drawn here.

    Raises:
        IncarnationUnreadable: the file holds something else.
    """
    if INCARNATION_FILE not in disk.list_directory(directory):
        return renew_incarnation(directory, disk)
    path = directory / INCARNATION_FILE
    content = bytes(read_file(disk, path))
    try:
        return int(content)
    except ValueError:
        shown = content[:SHOWN_BYTES_MAX]
        raise IncarnationUnreadable(f"{path}: expected a number, found {shown!r}") from None


def renew_incarnation(directory: Path, disk: Disk) -> int:
    """Give a directory another number: what it holds is not what it held."""
    number = new_number()
    path = directory / INCARNATION_FILE
    replace_file(disk, path, path.with_name(f"{path.name}.new"), b"%d\n" % number)
    return number
