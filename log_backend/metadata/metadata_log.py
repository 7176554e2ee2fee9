"""Checks RocksDB's own logs, of changes (*.log) and of its files (MANIFEST), before RocksDB reads them.

    blocks of 32,768 bytes of records, which do not cross their ends; a rest of less than 7 bytes is zeros
    record    0 crc u32, masked CRC-32C of [6:] | 4 length u16 | 6 type u8, 1 to 4 | 7 payload

RocksDB takes a record that is longer than its file for a torn one, and silently drops it and all records behind
it; at some invalid types it reads for ever. After a torn write, a header is intact or zeros: any other header
is damage.

Source: RocksDB's wiki, "Write Ahead Log File Format".
"""

import re
import struct
from pathlib import Path

from routelog.log_backend.doors.disk import Disk, read_file
from routelog.log_backend.records.checksum import crc32c

BLOCK_BYTES = 32_768
HEADER_BYTES = 7
TYPES = range(1, 5)  # full, first, middle, last; the others need options that are off

_NAME = re.compile(r"[0-9]+\.log|MANIFEST-[0-9]+")
_HEADER = struct.Struct("<IHB")


def find_damage(disk: Disk, directory: Path) -> tuple[str, int] | None:
    """Return name and position in the first log that RocksDB would misread; None: there is none."""
    for name in disk.list_directory(directory):
        if _NAME.fullmatch(name):
            at = _misread(read_file(disk, directory / name))
            if at is not None:
                return name, at
    return None


def _misread(content: bytearray) -> int | None:
    at = 0
    while at + HEADER_BYTES <= len(content):
        left = BLOCK_BYTES - at % BLOCK_BYTES
        if left < HEADER_BYTES:
            at += left
            continue
        _, length, kind = _HEADER.unpack_from(content, at)
        end = at + HEADER_BYTES + length
        if kind > TYPES[-1]:
            return at
        if length + HEADER_BYTES > left or end > len(content):
            is_damaged = any(_is_record(content, place) for place in range(at + 1, len(content)))
            return at if is_damaged else None
        if not kind:
            return None  # never written
        at = end
    return None


def _is_record(content: bytearray, at: int) -> bool:
    left = min(BLOCK_BYTES - at % BLOCK_BYTES, len(content) - at)
    if left < HEADER_BYTES:
        return False
    crc, length, kind = _HEADER.unpack_from(content, at)
    if kind not in TYPES or not 0 < length <= left - HEADER_BYTES:
        return False
    body: int = crc32c(content[at + 6 : at + HEADER_BYTES + length])
    masked = ((body >> 15 | body << 17) + 0xA282EAD8) & 0xFFFFFFFF
    return bool(masked == crc)
