"""The file PARTITION in each partition directory: the number of the partition that owns the segments there.

    0  magic   4s   b"RLP1"
    4  crc     u32  CRC-32C of [8:]
    8  number  u64  of the partition

Integers are little-endian. Files that a deleted queue of the same name has left have another number, so they
are never taken for those of the new queue. The file is durable before the first segment, and removed after the
last one. Segments without it, or with one that cannot be read, are damage.
"""

import struct
from pathlib import Path

from routelog.log_backend.doors.disk import Disk, opened
from routelog.log_backend.records.record_batch import crc32c

PARTITION_FILE = "PARTITION"
MAGIC = b"RLP1"
FILE_BYTES = 16

_NUMBER = struct.Struct("<Q")


def encode_number(number: int) -> bytes:
    """The content of the file."""
    body = _NUMBER.pack(number)
    return MAGIC + struct.pack("<I", crc32c(body)) + body


def decode_number(content: bytes) -> int | None:
    """Return the number in the file's content; None if it is damaged."""
    if len(content) != FILE_BYTES or content[:4] != MAGIC:
        return None
    if crc32c(content[8:]) != int.from_bytes(content[4:8], "little"):
        return None
    number: int = _NUMBER.unpack_from(content, 8)[0]
    return number


def read_number(disk: Disk, directory: Path) -> int | None:
    """Return the number of the partition that owns a directory; None if the file is missing or damaged."""
    try:
        with opened(disk, directory / PARTITION_FILE) as file:
            return decode_number(bytes(disk.read(file, 0, FILE_BYTES + 1)))
    except FileNotFoundError:
        return None
