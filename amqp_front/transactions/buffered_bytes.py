"""Bytes that a transaction keeps for messages: they grow to megabytes without being copied."""

import mmap

from routelog.log_backend import Octets

SMALL_BYTES = 65_536  # few transactions have more; a mapping costs some calls of the system
_FLAGS = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS


class BufferedBytes:
    """Bytes one behind the other.

    A buffer of the C library is copied whenever it grows, into memory that the system may have to find first:
    a mebibyte has held the event loop for 4 ms. Pages of a mapping stay where they are.

    Attributes:
        size: how many there are.
    """

    __slots__ = ("_bytes", "size")

    def __init__(self) -> None:
        self._bytes: bytearray | mmap.mmap = bytearray()
        self.size = 0

    def append(self, part: Octets) -> None:
        """Copy some behind the others."""
        begin = self.size
        self.size = end = begin + len(part)
        if isinstance(self._bytes, bytearray):
            if end <= SMALL_BYTES:
                self._bytes += part
                return
            small = self._bytes
            self._bytes = mmap.mmap(-1, _room(end), flags=_FLAGS)
            self._bytes[:begin] = small
        elif end > len(self._bytes):
            self._bytes.resize(_room(end))
        self._bytes[begin:end] = part

    def view(self) -> memoryview:
        """All of them; nothing can be appended any more."""
        return memoryview(self._bytes)[: self.size]


def _room(size: int) -> int:
    # A power of two: the table of pages is moved seldom.
    return 1 << (size - 1).bit_length()
