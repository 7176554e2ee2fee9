"""Where the log of a partition begins: what is gone below was let go, what is gone from there on is missed.

In the metadata store, big-endian::

    b"kept/" partition u64 -> u64, base offset of the oldest segment that is synced

A checkpoint stores it when it has synced that segment; it moves on, durably, before a segment's files go. A
partition without it promises no segment.
"""

import struct
from collections.abc import Sequence

from routelog.log_backend.metadata.metadata import Change, MetadataStore

_PREFIX = b"kept/"
_NUMBER = struct.Struct(">Q")


def first_kept_change(partition: int, offset: int | None) -> Change:
    """Store where a partition's log begins; None: nowhere."""
    value = None if offset is None else _NUMBER.pack(offset)
    return Change(_PREFIX + _NUMBER.pack(partition), value)


def load_first_kept(metadata: MetadataStore, partition: int) -> int | None:
    """Base offset of the segment that a partition's log begins with; None when none is promised."""
    entry = metadata.get(_PREFIX + _NUMBER.pack(partition))
    if entry is None:
        return None
    offset: int = _NUMBER.unpack(entry.value)[0]
    return offset


def expected_bases(bases: Sequence[int], first_kept: int | None) -> list[int]:
    """Base offsets of the segments that there must be, with the first one, though its file may be gone.

    Args:
        bases: of those that are there, ascending. What lies below `first_kept` was let go, and counts no more:
            of several such, a power cut may have brought back some.
    """
    if first_kept is None:
        return list(bases)
    return [first_kept, *(base for base in bases if base > first_kept)]
