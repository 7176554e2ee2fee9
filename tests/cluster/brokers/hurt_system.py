"""What the system does wrong for one broker: its disk is full, slow, hangs or fails, or its clock is wrong.

`hurt_system.c` stands between the broker's process and the system, and goes by a file that both map.
"""

import mmap
import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path

_SOURCE = Path(__file__).with_suffix(".c")
_WRONG = struct.Struct("@q5i")  # `struct wrong`
NOTHING = {"clock": 0, "full": 0, "slow": 0, "hanging": 0, "failing": 0, "unreadable": 0}


def hurting_library(folder: Path) -> Path:
    """Compile the library; a compiler is there, as the kernel was compiled."""
    library = folder / "hurt_system.so"
    command = ["gcc", "-O2", "-shared", "-fPIC", "-o", str(library), str(_SOURCE), "-ldl"]
    subprocess.run(command, check=True)
    return library


class HurtSystem:
    """See the module.

    Args:
        file: where it says what is wrong.
        directory: of the data; everything below it but `etcd` is hurt.
    """

    def __init__(self, library: Path, file: Path, directory: Path) -> None:
        self.environment: Mapping[str, str] = {
            "LD_PRELOAD": str(library),
            "HURT_SYSTEM_FILE": str(file),
            "HURT_SYSTEM_DIRECTORY": str(directory),
        }
        file.write_bytes(bytes(mmap.PAGESIZE))
        with file.open("r+b") as opened:
            self._map = mmap.mmap(opened.fileno(), mmap.PAGESIZE)
        self._wrong = dict(NOTHING)

    def hurt(self, **wrong: int) -> None:
        """From now on this is wrong, too: see `struct wrong`."""
        self._wrong |= wrong
        _WRONG.pack_into(self._map, 0, *self._wrong.values())

    def heal(self) -> None:
        """Nothing is wrong any more."""
        self.hurt(**NOTHING)
