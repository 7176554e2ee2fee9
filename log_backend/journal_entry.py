# cython: annotation_typing=False
"""An entry of the journal: one change of one partition, as it stands in a block.

All integers are little-endian::

     0  kind       u8   what the change is: `journal_block.py` has the kinds
     1  zeros      7
     8  partition  u64
    16  length     u32  of the content
    20  zeros      4
    24  content, a multiple of 8 bytes
"""

import struct
from typing import Any, Protocol

import cython

from log_backend.record_batch import RecordBatch, new_buffer, put_header, put_u64

BATCH = 1
ENTRY_HEADER_BYTES = 24

_HEADER = struct.Struct("<B7xQI4x")


class Change(Protocol):
    """A change that is no batch; `kind` says which."""

    kind: int

    def encode(self) -> bytes:
        """The content of its entry."""


@cython.no_gc  # no change knows an entry
@cython.cclass
class JournalEntry:
    """One change of one partition."""

    __slots__ = ("change", "partition")

    def __init__(self, partition: int, change: "RecordBatch | Change") -> None:
        self.partition = partition
        self.change: Any = change

    @cython.ccall
    @cython.returns(list)
    @cython.locals(head=bytearray, batch=RecordBatch)
    def pieces(self) -> "list[bytes | bytearray | memoryview]":
        """Its bytes in a block, in pieces to be written one behind the other."""
        change = self.change
        if not isinstance(change, RecordBatch):
            content = change.encode()
            return [_HEADER.pack(change.kind, self.partition, len(content)), content]
        batch = change
        head = new_buffer(88)
        put_u64(head, 0, 1)  # BATCH, and zeros
        put_u64(head, 8, self.partition)
        put_u64(head, 16, 64 + len(batch.records.payload))  # u32, and zeros
        put_header(head, 24, batch)
        return [head, batch.records.payload]


def entry_header(content: bytes | memoryview, at: int) -> tuple[int, int, int]:
    """Kind, partition and length of the content of the entry at a position."""
    kind, partition, length = _HEADER.unpack_from(content, at)
    return kind, partition, length
