"""A sync of the disk that holds the data: whether it still works."""

import asyncio
from pathlib import Path

from routelog.log_backend import Disk, opened

_WORD = b"routelog"


class DiskProbe:
    """Writes a few bytes to a file of its own and syncs them.

    A sync that fails raises, and is final: the node ends.
    """

    def __init__(self, directory: Path, disk: Disk) -> None:
        self._path = directory / "probe"
        self._disk = disk

    async def sync(self) -> None:
        """Returns when the disk has synced; on a disk that hangs it does not."""
        await asyncio.get_running_loop().run_in_executor(None, self._sync)

    def _sync(self) -> None:
        with opened(self._disk, self._path, create=True) as file:
            self._disk.write(file, 0, (_WORD,))
            self._disk.sync(file)
