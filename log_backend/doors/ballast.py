"""The ballast: a file that reserves disk space for metadata; on a full disk it is shrunk as needed.

    data/ballast     zeros, never read; its size is allocated and not synced

Before a segment is deleted, the metadata must say that the log begins behind it, and after one failed write
RocksDB refuses all others. Without the ballast, nothing could be deleted on a full disk, and no node could
start: RocksDB creates files when it opens. The ballast shrinks by no more than is missing, because another
program may still be filling the disk.
"""

import logging
import threading
from pathlib import Path

from routelog.log_backend.doors.disk import Disk, is_full, opened

log = logging.getLogger(__name__)

MIB = 1024 * 1024
PAGE_BYTES = 4_096  # the smallest unit that file systems free
CHANGE_BYTES = 64 * 1024  # of one batch of metadata: some 100 bytes for each of many partitions
# RocksDB's write buffer, its log and the copies of a compaction. With less, no checkpoint begins.
METADATA_BYTES = 4 * MIB
# For a start and several checkpoints: other programs may take the space that one of them frees.
BALLAST_BYTES = 4 * METADATA_BYTES
BALLAST_SHARE_MAX = 8  # at most an eighth of the file system
# The ballast is made only if twice its size is free: else metadata would need it back at once.
ROOM_TIMES_MIN = 2


class Ballast:
    """Disk space that only metadata may take; every call blocks, in any thread.

    Create it before RocksDB opens: on a full disk, it frees ballast of an earlier run for that.

    Args:
        wanted: size; less on a small file system; 0: no ballast.
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
        """Shrink the ballast until `needed` bytes are free; leave it alone if all of it is too little.

        Returns:
            Bytes that are free afterwards.
        """
        free = self._disk.free_bytes(self._directory)
        if free < needed <= free + self._held:
            with self._lock:
                lacking = needed - self._disk.free_bytes(self._directory)
                self._shrink(max(0, self._held - lacking) // PAGE_BYTES * PAGE_BYTES)
            free = self._disk.free_bytes(self._directory)
        return free

    def keep(self) -> int:
        """Grow the ballast to its full size if there is room for it.

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
        with opened(self._disk, self.path) as file:
            return self._disk.size(file)

    def _grow(self) -> None:
        with opened(self._disk, self.path, create=True) as file:
            try:
                self._disk.allocate(file, 0, self._size)
                self._held = self._size
            except OSError as error:
                self._disk.truncate(file, self._held)
                if not is_full(error):
                    raise

    def _shrink(self, size: int) -> None:
        if self._held >= self._size:
            log.warning("the disk is full: the ballast is given up for metadata, as far as needed")
        with opened(self._disk, self.path) as file:
            self._disk.truncate(file, size)
            # A journaling file system reuses freed blocks only after it has committed the truncation.
            self._disk.sync(file)
        self._held = size
