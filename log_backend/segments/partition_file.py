"""The file PARTITION in each partition directory: whose segments lie there.

    0  magic   4s   b"RLP1"
    4  crc     u32  CRC-32C of [8:]
    8  number  u64  of the partition

Integers are little-endian. A queue of the same name that was deleted before leaves another number, and its
files are never taken for the new one's. The file is durable before a segment is, and goes after the last
one: segments without it, or with one that cannot be read, are damage.
"""

import struct
from pathlib import Path

from routelog.log_backend.doors.disk import Disk
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
    """The number in a file's content; None when it is damaged."""
    if len(content) != FILE_BYTES or content[:4] != MAGIC:
        return None
    if crc32c(content[8:]) != int.from_bytes(content[4:8], "little"):
        return None
    number: int = _NUMBER.unpack_from(content, 8)[0]
    return number


def read_number(disk: Disk, directory: Path) -> int | None:
    """Number of the partition whose files lie in a directory; None when that cannot be read."""
    try:
        file = disk.open(directory / PARTITION_FILE)
    except FileNotFoundError:
        return None
    try:
        return decode_number(bytes(disk.read(file, 0, FILE_BYTES + 1)))
    finally:
        disk.close(file)
