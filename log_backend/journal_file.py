"""A journal file: preallocated, blocks from its start on, and a mark in its last page.

    page by page   blocks (journal_block.py), then zeros or what the file held before it was recycled
    last page      0 magic b"RLJE" | 4 crc u32, CRC-32C of [8:16] | 8 size of the file u64 | zeros

A torn write never shortens a file, so one without its mark is damaged. A file that grows for a large block
gets the mark of its new size, synced, before the block is written over the old one.
"""

import struct
from collections.abc import Iterator
from pathlib import Path

from log_backend.disk import Disk
from log_backend.journal_block import (
    BLOCK_ALIGNMENT,
    BLOCK_HEADER_BYTES,
    MAGIC,
    Block,
    decode_block,
)
from log_backend.record_batch import crc32c

END_MAGIC = b"RLJE"
END_BYTES = 16
SUFFIX = ".journal"
REPAIRED_SUFFIX = ".repaired"  # a repair wrote it and was interrupted

_SIZE = struct.Struct("<Q")
_PLACE = struct.Struct("<QQ")


class JournalDamaged(Exception):
    """A block that was durable is missing or damaged; the journal file and place are named."""

    def __init__(self, path: Path, at: int, reason: str) -> None:
        super().__init__(
            f"{path} is damaged at byte {at}: {reason}; 'routelog log verify' says what is lost, "
            "'routelog log repair' keeps the rest"
        )
        self.path = path
        self.at = at
        self.reason = reason


class JournalFile:
    """A preallocated file; `at` is where the next block goes, `size` where its last page begins."""

    __slots__ = ("at", "file", "number", "path", "size")

    def __init__(self, number: int, path: Path, file: int, size: int) -> None:
        self.number = number
        self.path = path
        self.file = file
        self.size = size
        self.at = 0


def encode_end(size: int) -> bytes:
    """The last page of a file of a size."""
    body = _SIZE.pack(size)
    mark = END_MAGIC + struct.pack("<I", crc32c(body)) + body
    return mark + bytes(BLOCK_ALIGNMENT - len(mark))


def write_end(disk: Disk, file: int, size: int) -> None:
    """Mark the last page of a file that has a size, and sync it."""
    disk.write(file, size - BLOCK_ALIGNMENT, [encode_end(size)])
    disk.sync(file)


def find_end(content: bytes | bytearray | memoryview) -> int | None:
    """Where a file's last page begins: at its mark, behind which a crash may have left more."""
    last = len(content) - len(content) % BLOCK_ALIGNMENT - BLOCK_ALIGNMENT
    for at in range(last, -1, -BLOCK_ALIGNMENT):
        mark = bytes(content[at : at + END_BYTES])
        if mark[:4] != END_MAGIC or crc32c(mark[8:]) != int.from_bytes(mark[4:8], "little"):
            continue
        if _SIZE.unpack_from(mark, 8)[0] == at + BLOCK_ALIGNMENT:
            return at
    return None


def find_blocks(content: bytearray, number: int) -> Iterator[tuple[int, Block]]:
    """Position and block of all whole blocks of a file, wherever they begin."""
    at = 0
    while at < len(content):
        block = decode_block(content, at, number)
        if block is None:
            at += BLOCK_ALIGNMENT
            continue
        yield at, block
        at += aligned(block.length)


def claims_block(content: bytearray, at: int, number: int, position: int) -> bool:
    """Whether what is no whole block was meant as one: torn, or damaged.

    Two of three signs tell, so that one damaged byte hides nothing; what a recycled file held before
    has one.
    """
    header = bytes(content[at : at + BLOCK_HEADER_BYTES])
    if len(header) < BLOCK_HEADER_BYTES:
        return False
    signs = (
        header[:4] == MAGIC,
        *map(int.__eq__, _PLACE.unpack_from(header, 8), (number, position)),
    )
    return sum(signs) >= 2


def journal_path(directory: Path, number: int) -> Path:
    """File of a number."""
    return directory / f"{number:020d}{SUFFIX}"


def journal_numbers(disk: Disk, directory: Path) -> list[int]:
    """Numbers of the files in a directory, ascending."""
    names = disk.list_directory(directory)
    return [int(name[: -len(SUFFIX)]) for name in names if name.endswith(SUFFIX)]


def aligned(size: int) -> int:
    """Bytes that a block of a size takes."""
    return size + -size % BLOCK_ALIGNMENT
