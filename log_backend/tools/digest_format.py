"""A digest of a node's data on its way: to the program that compares it, and what that is asked for.

Frames, each a `u32` of its length (little-endian) and MessagePack. To a digest program go a `DigestTask` and
the blocks behind its files; from it come pieces, in an order that is the same on all nodes::

    Blocks...  | of each partition, by name: Records...  | PartitionState | DigestEnd
    by chunk                                 by chunk

Anywhere between them there may be `DigestProgress`. Between a node and who compares, that comes behind::

    who compares                       node
      │ ◄──────────── DigestStand(position) ─│   my files are as of this block
      │ ── DigestStand(position) ──────────► │   the highest one of all nodes: what is the digest there?
      │ ◄───────────────────── pieces ... ─│

or in the place of any piece `DigestRefused`, and nothing follows.
"""

import struct
from collections.abc import Sequence
from pathlib import Path

import msgspec

from routelog.log_backend.copies.data_copy import CopiedFile
from routelog.log_backend.journal.journal_chain import ShardBlock

VERSION = 2
FRAME_BYTES_MAX = 256 * 1024 * 1024  # a block of the journal with one message of 128 MiB, and more
CHUNK = 65_536  # offsets, or positions, that one piece tells of
BEHIND_CHUNKS = 2**63

PartitionName = tuple[str, str, int]  # vhost, queue, index
Key = tuple[int, PartitionName, int]

_LENGTH = struct.Struct("<I")
DIGEST_LENGTH_BYTES = _LENGTH.size
_NOWHERE = ("", "", 0)


class BadDigest(Exception):
    """These bytes are no digest, or one of another version."""


class DigestTask(msgspec.Struct, frozen=True, tag="task"):
    """Whose digest is wanted: the files of a copy, each with path, size, and where it is."""

    files: list[tuple[str, int, str]]

    @classmethod
    def of(cls, files: Sequence[CopiedFile]) -> "DigestTask":
        """The digest of a copy."""
        return cls([(each.path, each.size, str(each.held)) for each in files])

    def copied(self) -> list[CopiedFile]:
        """The files of the copy."""
        return [CopiedFile(path, size, Path(held)) for path, size, held in self.files]


class DigestBlock(msgspec.Struct, frozen=True, tag="block"):
    """A block of the journal behind the files; see `ShardBlock`."""

    shard: int
    epoch: int
    position: int
    previous: int
    payload: bytes
    checksum: int

    @classmethod
    def of(cls, block: ShardBlock) -> "DigestBlock":
        """A block to be sent."""
        return cls(
            block.shard,
            block.epoch,
            block.position,
            block.previous,
            bytes(block.payload),
            block.checksum,
        )

    def block(self) -> ShardBlock:
        """The block as the journal has it."""
        return ShardBlock(
            self.shard, self.epoch, self.position, self.previous, self.payload, self.checksum
        )


class DigestStand(msgspec.Struct, frozen=True, tag="stand"):
    """A position of the journal.

    Attributes:
        replicas: names of all nodes that are to have copies, as the node knows; none: who compares says it.
    """

    position: int
    version: int = VERSION
    replicas: list[str] = []


class DigestRefused(msgspec.Struct, frozen=True, tag="refused"):
    """The node gives no digest, and says why."""

    reason: str


class DigestProgress(msgspec.Struct, frozen=True, tag="progress"):
    """How many bytes were read, and of how many; nothing yet: it is being prepared."""

    done: int = 0
    total: int = 0


class Blocks(msgspec.Struct, frozen=True, tag="blocks"):
    """Blocks of the journal: their checksums by position. The first one may be that of the block before."""

    chunk: int
    checksums: dict[int, int]

    @property
    def key(self) -> Key:
        """Its place in the digest."""
        return 0, _NOWHERE, self.chunk


class PartitionState(msgspec.Struct, frozen=True, tag="partition"):
    """What is known of a partition.

    Attributes:
        next_offset: behind the highest offset that was given.
        unsettled: by cursor, ranges [first, end) of offsets below that, which it has not settled; without those
            of records that were not journaled.
    """

    name: PartitionName
    next_offset: int
    unsettled: dict[int, list[tuple[int, int]]]

    @property
    def key(self) -> Key:
        """Its place in the digest."""
        return 1, self.name, BEHIND_CHUNKS


class Records(msgspec.Struct, frozen=True, tag="records"):
    """Records of a partition.

    Attributes:
        checksums: by offset, of those that the node has and that were journaled; it has all that a cursor has
            not settled.
        missing: offsets of which that is not so.
    """

    name: PartitionName
    chunk: int
    checksums: dict[int, int]
    missing: list[int]

    @property
    def key(self) -> Key:
        """Its place in the digest."""
        return 1, self.name, self.chunk


class DigestEnd(msgspec.Struct, frozen=True, tag="end"):
    """The digest is complete.

    Attributes:
        position: of the last block.
        checksum: one number for that block, and for all that is not settled.
        blocks, partitions, records: how many are in it.
    """

    position: int
    checksum: int
    blocks: int
    partitions: int
    records: int

    @property
    def key(self) -> Key:
        """Its place in the digest."""
        return 2, _NOWHERE, 0


Piece = Blocks | PartitionState | Records | DigestEnd
DigestMessage = Piece | DigestProgress | DigestRefused | DigestStand | DigestTask | DigestBlock

_decoder: msgspec.msgpack.Decoder[DigestMessage] = msgspec.msgpack.Decoder(DigestMessage)


def encode_digest(message: DigestMessage) -> bytes:
    """The frame of a message."""
    content = msgspec.msgpack.encode(message)
    return _LENGTH.pack(len(content)) + content


def digest_length(octets: bytes) -> int:
    """How many bytes follow these DIGEST_LENGTH_BYTES.

    Raises:
        BadDigest: too many.
    """
    length: int = _LENGTH.unpack(octets)[0]
    if length > FRAME_BYTES_MAX:
        raise BadDigest(f"a piece of {length:,} bytes")
    return length


def decode_digest(content: bytes) -> DigestMessage:
    """Read what follows the length of a frame.

    Raises:
        BadDigest: it is none of this version.
    """
    try:
        message = _decoder.decode(content)
    except msgspec.MsgspecError as error:
        raise BadDigest(str(error)) from None
    if isinstance(message, DigestStand) and message.version != VERSION:
        raise BadDigest(f"version {message.version}, and this one reads {VERSION}")
    return message
