# cython: annotation_typing=False
# mypy: allow-untyped-decorators, no-warn-return-any, disable-error-code="index,name-defined"
"""Gathers pieces for one write: small ones are copied into a buffer, large ones are not copied."""

from collections.abc import Sequence

import cython

from routelog.log_backend.records.checksum import UNLOCKED_BYTES_MIN
from routelog.log_backend.records.record_batch import (
    HEADER_BYTES,
    Octets,
    RecordBatch,
    new_buffer,
    put_header,
    put_octets,
)

COPIED_BYTES_MAX = 4_096  # to copy a larger piece saves no time
ROOM_BYTES_MIN = 4_096

# Compiled code reads these as C variables: a module's names it reads as slowly as Python does.
_HEADER_BYTES = cython.declare(cython.Py_ssize_t, HEADER_BYTES)
_COPIED_BYTES_MAX = cython.declare(cython.Py_ssize_t, COPIED_BYTES_MAX)
_ROOM_BYTES_MIN = cython.declare(cython.Py_ssize_t, ROOM_BYTES_MIN)
_UNLOCKED_BYTES_MIN = cython.declare(cython.Py_ssize_t, UNLOCKED_BYTES_MIN)


@cython.final
@cython.cclass
class Gathering:
    """Bytes in order.

    Attributes:
        bytes: how many there are.
        open: the buffer that grows; see `room`.
    """

    def __init__(self) -> None:
        self.bytes = 0
        self.open = bytearray()
        self._used = 0
        self._whole: list[Octets] = []

    @cython.ccall
    @cython.returns(cython.Py_ssize_t)
    @cython.exceptval(-1)
    @cython.locals(size=cython.Py_ssize_t, at=cython.Py_ssize_t)
    def room(self, size: int) -> int:
        """Add `size` bytes at the end; returns their place in `open`, which the caller fills at once."""
        at = self._used
        if at + size > len(self.open):
            self._grow(max(2 * at, at + size, _ROOM_BYTES_MIN))
        self._used = at + size
        self.bytes += size
        return at

    @cython.cfunc
    @cython.exceptval(-1)
    @cython.returns(cython.int)
    @cython.locals(size=cython.Py_ssize_t)
    def _grow(self, size: int) -> int:
        if cython.compiled:
            PyByteArray_Resize(self.open, size)
        else:
            self.open += bytes(size - len(self.open))
        return 0

    @cython.ccall
    @cython.exceptval(-1)
    @cython.returns(cython.int)
    @cython.locals(size=cython.Py_ssize_t, at=cython.Py_ssize_t)
    def add(self, octets: Octets) -> int:
        """Add a piece; it must not change before `buffers` are written."""
        size = len(octets)
        if size > _COPIED_BYTES_MAX:
            self._close()
            self._whole.append(octets)
            self.bytes += size
        else:
            at = self.room(size)
            put_octets(self.open, at, octets)
        return 0

    @cython.ccall
    @cython.exceptval(-1)
    @cython.returns(cython.int)
    @cython.locals(batch=RecordBatch, at=cython.Py_ssize_t)
    def add_batch(self, batch: RecordBatch) -> int:
        """Add a batch as it is stored: header and payload."""
        at = self.room(_HEADER_BYTES)
        put_header(self.open, at, batch)
        self.add(batch.records.payload)
        return 0

    @cython.locals(batches=list, at=cython.Py_ssize_t, bytes_max=cython.Py_ssize_t)
    def add_batches(self, batches: list[RecordBatch], at: int, bytes_max: int) -> int:
        """Add batches from an index on, until there are `bytes_max` bytes; returns the index behind them."""
        while at < len(batches) and self.bytes < bytes_max:
            self.add_batch(batches[at])
            at += 1
        return at

    @cython.cfunc
    @cython.exceptval(-1)
    @cython.returns(cython.int)
    def _close(self) -> int:
        if self._used:
            del self.open[self._used :]
            self._whole.append(self.open)
            self.open = new_buffer(0)
            self._used = 0
        return 0

    @cython.ccall
    @cython.exceptval(-1)
    @cython.returns(cython.int)
    @cython.locals(
        buffer=bytearray,
        at=cython.Py_ssize_t,
        size=cython.Py_ssize_t,
        copied=cython.Py_ssize_t,
        target=cython.p_char,
    )
    def copy_to(self, buffer: bytearray, at: int) -> int:
        """Copy all pieces, in order, to a place in a buffer that has room for them.

        It releases the GIL now and then.
        """
        copied = 0
        for octets in self._whole:
            size = len(octets)
            put_octets(buffer, at, octets)
            at += size
            copied += size
            if copied >= _UNLOCKED_BYTES_MIN:
                copied = 0
                with cython.nogil:
                    pass
        if cython.compiled:
            target = PyByteArray_AS_STRING(buffer) + at
            copy_octets(target, PyByteArray_AS_STRING(self.open), self._used)
        else:
            buffer[at : at + self._used] = self.open[: self._used]
        return 0

    def cut(self, stretches: Sequence[tuple[int, int]]) -> None:
        """Remove ranges of bytes, [first, end), which are disjoint and ascending."""
        kept: list[Octets] = []
        begin = place = 0
        for octets in self.buffers():
            first, end = begin, begin + len(octets)
            while place < len(stretches) and stretches[place][0] < end:
                low, high = stretches[place]
                if first < low:
                    kept.append(memoryview(octets)[first - begin : low - begin])
                first = max(first, min(high, end))
                if high > end:
                    break  # the range continues in the next piece
                place += 1
            if first < end:
                kept.append(octets if first == begin else memoryview(octets)[first - begin :])
            begin = end
        self._whole = kept
        self.bytes = sum(map(len, kept))

    def buffers(self) -> list[Octets]:
        """All pieces, in order."""
        self._close()
        return self._whole
