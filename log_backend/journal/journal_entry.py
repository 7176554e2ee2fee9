# cython: annotation_typing=False
# mypy: allow-untyped-decorators, no-warn-return-any, disable-error-code="index,name-defined"
"""An entry of the journal: one change of one partition, as it stands in a block.

All integers are little-endian::

     0  kind       u8   what the change is: `journal_block.py` has the kinds
     1  zeros      7
     8  partition  u64
    16  length     u32  of the content
    20  zeros      4
    24  content, a multiple of 8 bytes

A publish to many queues is a batch for each, with the same records: they stand in the block once, in the
first one's entry. Those that follow are `BATCH_AGAIN`::

     0  base offset   u64
     8  leader epoch  u32
    12  zeros         4

The records are those of the last `BATCH` before it in its block.
"""

import struct
from typing import Any, Protocol

import cython

from routelog.log_backend.records.gathering import Gathering
from routelog.log_backend.records.record_batch import (
    HEADER_BYTES,
    OFFSET_MAX,
    RecordBatch,
    Records,
    put_u64,
)

BATCH = 1
BATCH_AGAIN = 6
ENTRY_HEADER_BYTES = 24
BATCH_AGAIN_BYTES = ENTRY_HEADER_BYTES + 16

_HEADER = struct.Struct("<B7xQI4x")
_PLACE = struct.Struct("<QI4x")

# Compiled code reads these as C variables: a module's names it reads as slowly as Python does.
_BATCH = cython.declare(cython.int, BATCH)
_BATCH_AGAIN = cython.declare(cython.int, BATCH_AGAIN)
_BATCH_AGAIN_BYTES = cython.declare(cython.Py_ssize_t, BATCH_AGAIN_BYTES)
_ENTRY_HEADER_BYTES = cython.declare(cython.Py_ssize_t, ENTRY_HEADER_BYTES)
_HEADER_BYTES = cython.declare(cython.Py_ssize_t, HEADER_BYTES)


class Change(Protocol):
    """A change that is no batch; `kind` says which."""

    kind: int

    def encode(self) -> bytes:
        """The content of its entry."""


class JournalEntry:
    """One change of one partition."""

    __slots__ = ("change", "partition")

    def __init__(self, partition: int, change: RecordBatch | Change) -> None:
        self.partition = partition
        self.change: Any = change

    def encode(self) -> bytes:
        """Its bytes in a block."""
        change = self.change
        if not isinstance(change, RecordBatch):
            content = change.encode()
            return _HEADER.pack(change.kind, self.partition, len(content)) + content
        gathering = Gathering()
        put_batch_entry(gathering, self.partition, change)
        return b"".join(gathering.buffers())


@cython.ccall
@cython.exceptval(-1)
@cython.returns(cython.int)
@cython.locals(
    gathering=Gathering, partition=cython.ulonglong, batch=RecordBatch, at=cython.Py_ssize_t
)
def put_batch_entry(gathering: Gathering, partition: int, batch: RecordBatch) -> int:
    """Add the bytes of the entry of a batch: as `JournalEntry.encode`, without making one."""
    at = gathering.room(_ENTRY_HEADER_BYTES)
    put_u64(gathering.open, at, _BATCH)  # and zeros
    put_u64(gathering.open, at + 8, partition)
    put_u64(gathering.open, at + 16, _HEADER_BYTES + len(batch.records.payload))  # u32, and zeros
    gathering.add_batch(batch)
    return 0


@cython.ccall
@cython.exceptval(-1)
@cython.returns(cython.int)
@cython.locals(
    gathering=Gathering, partition=cython.ulonglong, batch=RecordBatch, at=cython.Py_ssize_t
)
def put_batch_again_entry(gathering: Gathering, partition: int, batch: RecordBatch) -> int:
    """Add the bytes of the entry of a batch whose records are those of the last `put_batch_entry`."""
    at = gathering.room(_BATCH_AGAIN_BYTES)
    put_u64(gathering.open, at, _BATCH_AGAIN)  # and zeros
    put_u64(gathering.open, at + 8, partition)
    put_u64(gathering.open, at + 16, _BATCH_AGAIN_BYTES - _ENTRY_HEADER_BYTES)  # u32, and zeros
    put_u64(gathering.open, at + 24, batch.base_offset)
    put_u64(gathering.open, at + 32, batch.leader_epoch)  # u32, and zeros
    return 0


def decode_batch_again(content: memoryview, records: Records | None) -> RecordBatch:
    """The batch of a `BATCH_AGAIN` entry; it shares the records.

    Args:
        records: of the last batch before it in its block; None: there is none.

    Raises:
        ValueError: there is none, or the offset is out of range.
        struct.error: the content has another size.
    """
    base_offset, leader_epoch = _PLACE.unpack(content)
    if records is None:
        raise ValueError("no batch stands before it")
    if base_offset + records.count > OFFSET_MAX:
        raise ValueError(f"the offset {base_offset} is out of range")
    return RecordBatch(records, base_offset, leader_epoch)


@cython.locals(at=cython.Py_ssize_t, size=cython.Py_ssize_t, length=cython.Py_ssize_t)
def entry_places(content: memoryview) -> list[tuple[int, int, int, int]]:
    """Kind and partition of each entry, and where its content lies: [begin, end)."""
    places: list[tuple[int, int, int, int]] = []
    at, size = 0, len(content)
    while at < size:
        kind, partition, length = _HEADER.unpack_from(content, at)
        at += _ENTRY_HEADER_BYTES
        places.append((kind, partition, at, at + length))
        at += length
    return places
