"""File modes of the data directory: only its owner may read it, whatever umask the broker was started with.

It holds messages and hashes of passwords. RocksDB creates some of the files and takes their mode from the
umask. So the process sets its own umask, and takes rights away that files of earlier runs gave to others.
"""

import logging
import os
import stat
from pathlib import Path

log = logging.getLogger(__name__)

FOLDER_MODE = 0o700
FILE_MODE = 0o600
UMASK = 0o077

# The broker's own entries of the data directory. The operator may keep other files there.
_OWN = frozenset(
    (
        "LOCK",
        "ballast",
        "compressing",
        "copies",
        "journal",
        "log_token.key",
        "logs",
        "management.json",
        "metadata",
        "quarantine",
        "spill",
    )
)


def keep_private() -> int:
    """Let only the owner read files that this process creates from here on; returns the previous umask."""
    return os.umask(UMASK)


def narrow(data: Path) -> None:
    """Take the rights of group and others away from an existing data directory.

    Failures are logged. A folder that has the right mode already is skipped with all in it.
    """
    try:
        mode = stat.S_IMODE(data.stat().st_mode)
        for entry in os.scandir(data):
            if entry.name in _OWN:
                _narrow_entry(entry)
        if mode & stat.S_ISVTX:  # as /tmp: it belongs to everybody
            log.warning("data directory %s is everybody's (mode %04o): give it its own", data, mode)
        elif mode != FOLDER_MODE:
            log.warning("data directory %s had mode %04o, and has %04o", data, mode, FOLDER_MODE)
            data.chmod(FOLDER_MODE)
    except FileNotFoundError:
        pass  # it is made later
    except OSError as error:
        log.warning("data directory %s stays open to others: %s", data, error)


def _narrow_entry(entry: "os.DirEntry[str]") -> None:
    if entry.is_symlink():
        return
    wanted = FOLDER_MODE if entry.is_dir() else FILE_MODE
    if stat.S_IMODE(entry.stat().st_mode) == wanted:
        return
    if entry.is_dir():
        for each in os.scandir(entry):
            _narrow_entry(each)
    os.chmod(entry, wanted)  # the folder last: if this is cut short, the next start does it again


def others_may_read(file: Path) -> bool:
    """Whether everybody on this machine may read a file; False when that is unknown."""
    try:
        return bool(file.stat().st_mode & stat.S_IROTH)
    except OSError:
        return False
