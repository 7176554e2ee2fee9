"""The base offset of a partition's first segment: a missing segment below was removed, one above is damage.

In the metadata store, big-endian::

    b"kept/" partition u64 -> u64, base offset of the oldest segment that is synced

A checkpoint stores it after it has synced that segment. Before the files of a segment are removed, the entry of
the next one is made durable. A partition without an entry need not have any segment.
"""

import struct
from collections.abc import Iterable, Sequence

from routelog.log_backend.metadata.metadata import Change
from routelog.log_backend.metadata.read_ahead import StoredEntries
from routelog.log_backend.segments.log_directory import SegmentName

FIRST_KEPT_PREFIX = b"kept/"
_NUMBER = struct.Struct(">Q")


def first_kept_change(partition: int, offset: int | None) -> Change:
    """Store the base offset of a partition's first segment; None: delete the entry."""
    value = None if offset is None else _NUMBER.pack(offset)
    return Change(FIRST_KEPT_PREFIX + _NUMBER.pack(partition), value)


def load_first_kept(metadata: StoredEntries, partition: int) -> int | None:
    """Base offset of the first segment that a partition must have; None: it need not have any."""
    entry = metadata.get(FIRST_KEPT_PREFIX + _NUMBER.pack(partition))
    if entry is None:
        return None
    offset: int = _NUMBER.unpack(entry.value)[0]
    return offset


def kept_names(names: Iterable[str], first_kept: int | None) -> list[str]:
    """Names of a partition's files without those of segments below `first_kept`.

    They were removed, but a crash may leave some, or bring them back: a compacted one would hide others.
    """
    parsed = {name: SegmentName.parse(name) for name in names}
    return [name for name, each in parsed.items() if each is None or each.base >= (first_kept or 0)]


def expected_bases(bases: Sequence[int], first_kept: int | None) -> list[int]:
    """Base offsets of the segments that a partition must have; the file of the first one may be missing.

    Args:
        bases: of the files in the directory, ascending. Those below `first_kept` are ignored: they were
            removed, but a power cut may bring some of them back.
    """
    if first_kept is None:
        return list(bases)
    return [first_kept, *(base for base in bases if base > first_kept)]
