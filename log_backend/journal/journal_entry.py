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
"""

import struct
from typing import Any, Protocol

import cython

from routelog.log_backend.records.gathering import Gathering
from routelog.log_backend.records.record_batch import HEADER_BYTES, RecordBatch, put_u64

BATCH = 1
ENTRY_HEADER_BYTES = 24

_HEADER = struct.Struct("<B7xQI4x")

# Compiled code reads these as C variables: a module's names it reads as slowly as Python does.
_BATCH = cython.declare(cython.int, BATCH)
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
