"""Large writes past the system's cache (O_DIRECT): they need not be copied there first.

A block of 370 KiB takes 0.27 µs of processor time for a KiB instead of 0.70, and 0.27 ms instead of 0.50.
"""

import errno
import mmap
import os
from collections.abc import Sequence
from threading import Lock

Buffer = bytes | bytearray | memoryview
# Of places and sizes. Any disk's sector fits into a page.
PAGE_BYTES = 4_096
# A smaller write takes as long through the cache.
DIRECT_BYTES_MIN = 64 * 1024
# Memory that is kept for it; the largest block but for those of large transactions.
DIRECT_BYTES_MAX = 4 * 1024 * 1024 + 2 * PAGE_BYTES
ZEROS_BYTES = 1024 * 1024  # of one write


class DirectWrites:
    """Writes files that are open for the cache, too."""

    def __init__(self) -> None:
        self._files: dict[int, int | None] = {}  # by the other descriptor; None: it cannot be so
        self._buffer: mmap.mmap | None = None
        self._lock = Lock()  # of the buffer

    def write_synced(self, file: int, position: int, buffers: Sequence[Buffer], size: int) -> bool:
        """Write and sync buffers of so many bytes.

        Returns:
            False: it is too small or too large, or the file system does not take it: it is to be written
                through the cache.

        Raises:
            OSError: as of any synced write.
        """
        if not DIRECT_BYTES_MIN <= size <= DIRECT_BYTES_MAX or (position | size) % PAGE_BYTES:
            return False
        with self._lock:
            direct = self._descriptor(file)
            if direct is None:
                return False
            try:
                self._write(direct, position, buffers, size)
            except OSError as error:
                self._refused(file, direct, error)
                return False
            return True

    def write_zeros(self, file: int, size: int) -> int:
        """Write zeros from the start of a file, whole pages of so many bytes; nothing is synced.

        Returns:
            How many: 0 where the file system does not take it.

        Raises:
            OSError: as of any write.
        """
        with self._lock:
            direct = self._descriptor(file)
        written, end = 0, size - size % PAGE_BYTES
        zeros = memoryview(mmap.mmap(-1, ZEROS_BYTES))
        while direct is not None and written < end:
            try:
                written += os.pwrite(direct, zeros[: end - written], written)
            except OSError as error:
                with self._lock:
                    self._refused(file, direct, error)
                break
        return written

    def _descriptor(self, file: int) -> int | None:
        if file not in self._files:
            self._files[file] = _opened_again(file)
        return self._files[file]

    def _refused(self, file: int, direct: int, error: OSError) -> None:
        if error.errno != errno.EINVAL:
            raise error
        # It opens such files, and wants other places or sizes: what was written comes again.
        os.close(direct)
        self._files[file] = None

    def close(self, file: int) -> None:
        """A file is about to be closed."""
        direct = self._files.pop(file, None)
        if direct is not None:
            os.close(direct)

    def _write(self, direct: int, position: int, buffers: Sequence[Buffer], size: int) -> None:
        if self._buffer is None:
            self._buffer = mmap.mmap(-1, DIRECT_BYTES_MAX)  # begins with a page
        with memoryview(self._buffer) as aligned:
            at = 0
            for each in buffers:
                with memoryview(each) as piece:
                    aligned[at : at + len(piece)] = piece
                    at += len(piece)
            written = 0
            while written < size:
                rest = aligned[written:size]
                written += os.pwritev(direct, [rest], position + written, os.RWF_DSYNC)


def _opened_again(file: int) -> int | None:
    try:
        return os.open(f"/proc/self/fd/{file}", os.O_WRONLY | os.O_CLOEXEC | os.O_DIRECT)
    except OSError:  # such as one in memory
        return None
