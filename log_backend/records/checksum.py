# cython: annotation_typing=False
# mypy: allow-untyped-decorators, no-warn-return-any, disable-error-code="index,name-defined"
"""CRC-32C (Castagnoli): the checksum of batches, blocks, index files and keys.

A call of the library takes longer than the checksum of a short message. So compiled code computes short ones
here: by the processor's instruction for eight bytes if it has one; otherwise with eight tables of 256 entries,
of which table n is for a byte with n zero bytes behind it.

Source: RFC 3720, appendix B.4; Kounavis and Berry, "A systematic approach to building high performance
software-based CRC generators", 2005.
"""

from typing import Any

import cython
from google_crc32c import extend as _extended
from google_crc32c import value as _crc32c

# The library takes only `bytes`. A copy of this size fits into the processor's cache.
PIECE_BYTES = 64 * 1024

# From this size on, the GIL is released: 1 MiB takes some 0.1 ms, and to get the GIL back takes time, too.
UNLOCKED_BYTES_MIN = 1024 * 1024
_UNLOCKED_BYTES_MIN = cython.declare(cython.Py_ssize_t, UNLOCKED_BYTES_MIN)

Octets = bytes | bytearray | memoryview


@cython.ccall
def crc32c(data: Octets) -> int:
    """CRC-32C of a contiguous buffer."""
    if cython.compiled:
        if isinstance(data, bytearray) and len(data) <= SHORT_BYTES_MAX:
            return octets_crc(cython.cast(cython.p_uchar, PyByteArray_AS_STRING(data)), len(data))
        if isinstance(data, bytes) and len(data) <= SHORT_BYTES_MAX:
            return octets_crc(cython.cast(cython.p_uchar, PyBytes_AS_STRING(data)), len(data))
    if isinstance(data, bytes) or len(data) <= PIECE_BYTES:
        return _crc32c(bytes(data))  # which copies no `bytes`
    return crc32c_on(0, data)


def crc32c_on(crc: int, data: Octets) -> int:
    """CRC-32C of octets that have this checksum, and of a contiguous buffer behind them."""
    if isinstance(data, bytes):
        return _extended(crc, data)
    for at in range(0, len(data), PIECE_BYTES):
        crc = _extended(crc, bytes(memoryview(data)[at : at + PIECE_BYTES]))
    return crc


@cython.ccall
@cython.returns(cython.uint)
@cython.exceptval(check=False)
@cython.locals(buffer=bytearray, at=cython.Py_ssize_t, end=cython.Py_ssize_t, place=cython.p_uchar)
def crc32c_between(buffer: bytearray, at: int, end: int) -> int:
    """CRC-32C of [at, end) of a buffer; compiled code does not check the range."""
    if not cython.compiled:
        return crc32c(buffer[at:end])
    place = cython.cast(cython.p_uchar, PyByteArray_AS_STRING(buffer)) + at
    if end - at < _UNLOCKED_BYTES_MIN:
        return octets_crc(place, end - at)
    with cython.nogil:
        return octets_crc(place, end - at)


@cython.cfunc
@cython.nogil
@cython.returns(cython.uint)
@cython.exceptval(check=False)
@cython.locals(
    at=cython.p_uchar,
    size=cython.Py_ssize_t,
    crc=cython.uint,
    low=cython.uint,
    high=cython.uint,
    word=cython.ulonglong,
)
def octets_crc(at: Any, size: int) -> int:
    """CRC-32C of a place in memory, unchecked; only in compiled code."""
    crc = 0xFFFFFFFF
    while CRC_INSTRUCTION and size >= 8:
        memcpy(cython.address(word), at, 8)
        crc = _mm_crc32_u64(crc, word)
        at += 8
        size -= 8
    while size >= 8:
        memcpy(cython.address(low), at, 4)
        memcpy(cython.address(high), at + 4, 4)
        low ^= crc
        crc = (
            TABLES[1792 + (low & 0xFF)]
            ^ TABLES[1536 + (low >> 8 & 0xFF)]
            ^ TABLES[1280 + (low >> 16 & 0xFF)]
            ^ TABLES[1024 + (low >> 24)]
            ^ TABLES[768 + (high & 0xFF)]
            ^ TABLES[512 + (high >> 8 & 0xFF)]
            ^ TABLES[256 + (high >> 16 & 0xFF)]
            ^ TABLES[high >> 24]
        )
        at += 8
        size -= 8
    while size > 0:
        crc = TABLES[(crc ^ at[0]) & 0xFF] ^ crc >> 8
        at += 1
        size -= 1
    return ~crc


@cython.cfunc
@cython.returns(cython.int)
@cython.exceptval(-1)
@cython.locals(place=cython.int, _bit=cython.int, entry=cython.uint)
def _fill_tables() -> int:
    for place in range(256):
        entry = place
        for _bit in range(8):
            entry = entry >> 1 ^ (0x82F63B78 if entry & 1 else 0)
        TABLES[place] = entry
    for place in range(256, 2048):
        entry = TABLES[place - 256]
        TABLES[place] = TABLES[entry & 0xFF] ^ entry >> 8
    return 0


if cython.compiled:
    _fill_tables()
