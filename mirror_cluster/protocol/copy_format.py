"""A copy of a leader's checkpoint, on its way to a follower.

It is what follows the introduction of a connection for a copy; the follower says nothing. Numbers are
little-endian, and each crc is the CRC-32C of what stands before it::

    copy     head | files
    head     record: {"version", "position", "epoch", "checksum", "files", "bytes"}
             or {"version", "refused"}: why there is no copy, and nothing follows
    file     record: {"path", "size", "padded"} | pieces
    piece    1 MiB, of the last one of a file what is left | crc u32
    record   length u32 | JSON | crc u32
"""

import struct
from typing import Annotated, TypeVar

import msgspec

from routelog.log_backend import Mark, crc32c

VERSION = 1
RECORD_BYTES_MAX = 65_536  # a path has 4,096 bytes at most
PIECE_BYTES = 1024 * 1024  # what one node has in memory of a copy, a few times over

LENGTH = struct.Struct("<I")
CRC = struct.Struct("<I")

Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]

_T = TypeVar("_T")


class BadCopy(Exception):
    """These bytes are no copy, or a damaged one."""


class CopyHead(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is copied.

    Attributes:
        position, epoch, checksum: of the last block in it.
        bytes: that all files have on the disk.
    """

    position: Count
    epoch: Count
    checksum: Count
    files: Count
    bytes: Count
    version: int = VERSION

    @property
    def last(self) -> Mark:
        """The last block in it."""
        return Mark(self.position, self.epoch, self.checksum)


class CopyRefused(msgspec.Struct, frozen=True):
    """The leader gives no copy, and says why."""

    refused: str
    version: int = VERSION


class FileHead(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One file; see `CopiedFile`."""

    path: str
    size: Count
    padded: Count

    @property
    def bytes(self) -> int:
        """That it has on the disk."""
        return max(self.size, self.padded)


class _Kind(msgspec.Struct, frozen=True):
    version: int
    refused: str = ""


def encode_record(record: CopyHead | CopyRefused | FileHead) -> bytes:
    """The bytes of a record."""
    octets = msgspec.json.encode(record)
    return LENGTH.pack(len(octets)) + octets + encode_crc(octets)


def encode_crc(octets: bytes | bytearray) -> bytes:
    """The checksum that follows these bytes."""
    return CRC.pack(crc32c(octets))


def check_crc(octets: bytes, what: str) -> bytes:
    """Take off the crc that ends these bytes.

    Raises:
        BadCopy: they are damaged.
    """
    content = octets[: -CRC.size]
    if CRC.unpack_from(octets, len(content))[0] != crc32c(content):
        raise BadCopy(f"{what} was damaged on the way")
    return content


def record_length(octets: bytes) -> int:
    """How many bytes follow the length of a record.

    Raises:
        BadCopy: too many.
    """
    length: int = LENGTH.unpack(octets)[0]
    if length > RECORD_BYTES_MAX:
        raise BadCopy(f"a record of {length:,} bytes")
    return length + CRC.size


def decode_head(octets: bytes) -> CopyHead:
    """Read what follows the length of a head.

    Raises:
        BadCopy: it is none of this version, or says why there is no copy.
    """
    content = check_crc(octets, "its head")
    kind = _decode(content, _Kind)
    if kind.version != VERSION:
        raise BadCopy(f"it has version {kind.version}, and this node reads {VERSION}")
    if kind.refused:
        raise BadCopy(kind.refused)
    return _decode(content, CopyHead)


def decode_file(octets: bytes) -> FileHead:
    """Read what follows the length of a file's record.

    Raises:
        BadCopy: it is none.
    """
    file = _decode(check_crc(octets, "a file's record"), FileHead)
    if 0 < file.padded <= file.size:
        raise BadCopy(f"{file.path}: {file.size:,} bytes do not fit into {file.padded:,}")
    return file


def _decode(content: bytes, kind: type[_T]) -> _T:
    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.MsgspecError as error:
        raise BadCopy(f"not the record of a copy: {error}") from None
