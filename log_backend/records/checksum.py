# cython: annotation_typing=False
# mypy: allow-untyped-decorators, no-warn-return-any, disable-error-code="index,name-defined"
"""CRC-32C (Castagnoli): the checksum of batches, blocks, index files and keys.

A call of the library takes longer than the checksum of a short message, and it takes only `bytes`. So compiled
code computes checksums here. Where the processor has an instruction for eight bytes, three stretches go beside
each other, as each instruction waits for the one before it. Where it has none, short ones are computed with
eight tables of 256 entries, of which table n is for a byte with n zero bytes behind it.

The checksum of octets that stand behind others is their own, xor what that of the others becomes with as many
zeros behind it: so checksums are joined without the octets.

Source: RFC 3720, appendix B.4; Kounavis and Berry, "A systematic approach to building high performance
software-based CRC generators", 2005; Adler's crc32c.c for the stretches, zlib's crc32_combine for the zeros.
"""

from typing import Any

import cython
from google_crc32c import extend as _extended

# The library takes only `bytes`. A copy of this size fits into the processor's cache.
PIECE_BYTES = 64 * 1024

# From this size on, the GIL is released: 1 MiB takes some 0.1 ms, and to get the GIL back takes time, too.
UNLOCKED_BYTES_MIN = 1024 * 1024
_UNLOCKED_BYTES_MIN = cython.declare(cython.Py_ssize_t, UNLOCKED_BYTES_MIN)

# Of each of the three: to join them takes a fortieth of the time.
STRETCH_BYTES = 1_024
_STRETCH_BYTES = cython.declare(cython.Py_ssize_t, STRETCH_BYTES)

# Polynomials, as checksums are: the highest bit is the coefficient of 1.
_CASTAGNOLI = cython.declare(cython.uint, 0x82F63B78)
_X_8 = cython.declare(cython.uint, 1 << 23)  # a zero byte behind

Octets = bytes | bytearray | memoryview


@cython.ccall
def crc32c(data: Octets) -> int:
    """CRC-32C of a contiguous buffer."""
    if cython.compiled:
        if isinstance(data, bytearray) and len(data) <= SHORT_BYTES_MAX:
            return octets_crc(cython.cast(cython.p_uchar, PyByteArray_AS_STRING(data)), len(data))
        if isinstance(data, bytes) and len(data) <= SHORT_BYTES_MAX:
            return octets_crc(cython.cast(cython.p_uchar, PyBytes_AS_STRING(data)), len(data))
    return crc32c_on(0, data)


@cython.ccall
def crc32c_on(crc: int, data: Octets) -> int:
    """CRC-32C of octets that have this checksum, and of a contiguous buffer behind them."""
    if cython.compiled and CRC_INSTRUCTION:
        return buffer_crc(crc, data)
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


@cython.ccall
@cython.returns(cython.uint)
@cython.exceptval(check=False)
@cython.locals(
    before=cython.uint, behind=cython.uint, behind_bytes=cython.ulonglong, zeros=cython.uint
)
def crc32c_joined(before: int, behind: int, behind_bytes: int) -> int:
    """CRC-32C of octets with the checksum `before`, and of some behind them with the checksum `behind`.

    Cost: some 2 µs, however many they are.
    """
    zeros = _X_8
    while behind_bytes:
        if behind_bytes & 1:
            before = _product(before, zeros)
        behind_bytes >>= 1
        zeros = _product(zeros, zeros)
    return before ^ behind


@cython.cfunc
@cython.nogil
@cython.returns(cython.uint)
@cython.exceptval(check=False)
@cython.locals(left=cython.uint, right=cython.uint, product=cython.uint, bit=cython.uint)
def _product(left: int, right: int) -> int:
    # Of two polynomials, modulo Castagnoli's.
    product, bit = 0, 1 << 31
    while bit:
        if left & bit:
            product ^= right
        bit >>= 1
        right = right >> 1 ^ (_CASTAGNOLI if right & 1 else 0)
    return product


@cython.cfunc
@cython.nogil
@cython.returns(cython.uint)
@cython.exceptval(check=False)
@cython.locals(at=cython.p_uchar, size=cython.Py_ssize_t)
def octets_crc(at: Any, size: int) -> int:
    """CRC-32C of a place in memory, unchecked; only in compiled code."""
    return octets_crc_on(0, at, size)


@cython.cfunc
@cython.nogil
@cython.returns(cython.uint)
@cython.exceptval(check=False)
@cython.locals(
    at=cython.p_uchar,
    end=cython.p_uchar,
    size=cython.Py_ssize_t,
    crc=cython.uint,
    second=cython.uint,
    third=cython.uint,
    low=cython.uint,
    high=cython.uint,
    word=cython.ulonglong,
)
def octets_crc_on(crc: int, at: Any, size: int) -> int:
    """As `octets_crc`, behind octets that have this checksum."""
    crc = ~crc
    while CRC_INSTRUCTION and size >= 3 * _STRETCH_BYTES:
        second = third = 0
        end = at + _STRETCH_BYTES
        while at < end:
            memcpy(cython.address(word), at, 8)
            crc = _mm_crc32_u64(crc, word)
            memcpy(cython.address(word), at + _STRETCH_BYTES, 8)
            second = _mm_crc32_u64(second, word)
            memcpy(cython.address(word), at + 2 * _STRETCH_BYTES, 8)
            third = _mm_crc32_u64(third, word)
            at += 8
        crc = _behind_stretch(_behind_stretch(crc) ^ second) ^ third
        at += 2 * _STRETCH_BYTES
        size -= 3 * _STRETCH_BYTES
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
@cython.inline
@cython.nogil
@cython.returns(cython.uint)
@cython.exceptval(check=False)
@cython.locals(crc=cython.uint)
def _behind_stretch(crc: int) -> int:
    # What it becomes with a stretch of zeros behind it.
    return (
        STRETCH_TABLES[crc & 0xFF]
        ^ STRETCH_TABLES[256 + (crc >> 8 & 0xFF)]
        ^ STRETCH_TABLES[512 + (crc >> 16 & 0xFF)]
        ^ STRETCH_TABLES[768 + (crc >> 24)]
    )


@cython.cfunc
@cython.returns(cython.int)
@cython.exceptval(-1)
@cython.locals(place=cython.int, _bit=cython.int, entry=cython.uint, zeros=cython.uint)
def _fill_tables() -> int:
    for place in range(256):
        entry = place
        for _bit in range(8):
            entry = entry >> 1 ^ (_CASTAGNOLI if entry & 1 else 0)
        TABLES[place] = entry
    for place in range(256, 2048):
        entry = TABLES[place - 256]
        TABLES[place] = TABLES[entry & 0xFF] ^ entry >> 8
    zeros = crc32c_joined(1 << 31, 0, _STRETCH_BYTES)
    for place in range(1_024):
        entry = place & 0xFF
        STRETCH_TABLES[place] = _product(entry << (place >> 8 << 3), zeros)
    return 0


if cython.compiled:
    _fill_tables()
