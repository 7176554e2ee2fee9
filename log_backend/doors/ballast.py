"""The ballast: a file that holds room for metadata, given up piece by piece when others have taken all else.

    data/ballast     zeros, never read; its size is allocated and not synced

To delete a segment, the metadata must say before that the log begins behind it, and RocksDB takes nothing more
once a write of it has failed. So on a disk without a free page nothing could be deleted, and no node could
start: RocksDB begins files of its own when it opens. With the room of the ballast both work, and what goes then
makes room for the next ballast. Only what lacks is given up: whoever fills the disk may still be at it.
"""

import logging
import threading
from pathlib import Path

from routelog.log_backend.doors.disk import Disk, is_full

log = logging.getLogger(__name__)

MIB = 1024 * 1024
PAGE_BYTES = 4_096  # file systems free no less
CHANGE_BYTES = 64 * 1024  # of a change of the metadata: some 100 bytes for each of many partitions
# For a write buffer of RocksDB, its log and what a compaction copies. With less, no checkpoint begins.
METADATA_BYTES = 4 * MIB
# For a start and for checkpoints, each of which may lose its room to others. To delete takes some pages.
BALLAST_BYTES = 4 * METADATA_BYTES
BALLAST_SHARE_MAX = 8  # of the file system: a small one is for messages
# It is made when so many times its size is free: with it there, no metadata need it again at once.
ROOM_TIMES_MIN = 2


class Ballast:
    """Room on the disk that only metadata get; every call blocks, in any thread.

    Made before RocksDB opens: on a full disk, what an earlier run kept is given up for that.

    Args:
        wanted: size, as far as the file system is large enough; 0: there is none.
    """

    def __init__(self, directory: Path, disk: Disk, wanted: int) -> None:
        self.path = directory / "ballast"
        self._directory = directory
        self._disk = disk
        self._size = min(wanted, disk.total_bytes(directory) // BALLAST_SHARE_MAX)
        self._lock = threading.Lock()
        self._held = self._kept_by_earlier_run()
        self.make_room(min(METADATA_BYTES, disk.free_bytes(directory) + self._held))
        self.keep()

    def make_room(self, needed: int = CHANGE_BYTES) -> int:
        """Give up as much of the ballast as lacks for `needed` bytes; nothing when all of it is too little.

        Returns:
            Bytes free then.
        """
        free = self._disk.free_bytes(self._directory)
        if free < needed <= free + self._held:
            with self._lock:
                lacking = needed - self._disk.free_bytes(self._directory)
                self._shrink(max(0, self._held - lacking) // PAGE_BYTES * PAGE_BYTES)
            free = self._disk.free_bytes(self._directory)
        return free

    def keep(self) -> int:
        """Make the ballast whole when there is room for it.

        Returns:
            Bytes that are free beside it.
        """
        free = self._disk.free_bytes(self._directory)
        if self._held < self._size and free >= ROOM_TIMES_MIN * self._size:
            with self._lock:
                self._grow()
            free = self._disk.free_bytes(self._directory)
        return free

    def _kept_by_earlier_run(self) -> int:
        if self.path.name not in self._disk.list_directory(self._directory):
            return 0
        file = self._disk.open(self.path)
        try:
            return self._disk.size(file)
        finally:
            self._disk.close(file)

    def _grow(self) -> None:
        file = self._disk.open(self.path, create=True)
        try:
            self._disk.allocate(file, 0, self._size)
        except OSError as error:
            self._disk.truncate(file, self._held)
            if not is_full(error):
                raise
        else:
            self._held = self._size
        finally:
            self._disk.close(file)

    def _shrink(self, size: int) -> None:
        if self._held >= self._size:
            log.warning("the disk is full: the ballast is given up for metadata, as far as needed")
        file = self._disk.open(self.path)
        try:
            self._disk.truncate(file, size)
            # A file system with a journal gives blocks out again once that has committed their end.
            self._disk.sync(file)
        finally:
            self._disk.close(file)
        self._held = size
