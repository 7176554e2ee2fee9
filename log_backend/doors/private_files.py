"""Who may read the data directory: its owner alone, whatever umask the broker was started with.

Messages and hashes of passwords are in it, and some of its files are made by RocksDB, which knows no mode but
that of the umask. So the process has a umask of its own, and what earlier runs gave to others is narrowed.
"""

import logging
import os
import stat
from pathlib import Path

log = logging.getLogger(__name__)

FOLDER_MODE = 0o700
FILE_MODE = 0o600
UMASK = 0o077

# What a broker keeps in its data directory. An operator may have files of his own there.
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
    """Make all that this process creates from here on its owner's alone; returns the umask before."""
    return os.umask(UMASK)


def narrow(data: Path) -> None:
    """Take from others what a data directory of an earlier run, or of an operator, gave them.

    Where that is not allowed, the log says so. A folder with the right mode has been narrowed whole.
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
    os.chmod(entry, wanted)  # the folder last: until then the next start goes on


def others_may_read(file: Path) -> bool:
    """Whether everybody on this machine may read a file; False when nobody can say."""
    try:
        return bool(file.stat().st_mode & stat.S_IROTH)
    except OSError:
        return False
