"""The mark of a partition with copies in remote storage: what its disk lacks may be there.

In the metadata store, big-endian::

    b"copied/" partition u64 -> nothing

It is in the journal before the first copy is, and goes with the files of the partition. Without it, a log ends
where the disk ends: nobody asks remote storage.
"""

import struct
from collections.abc import Iterator

from routelog.log_backend.metadata.metadata import Change
from routelog.log_backend.metadata.read_ahead import StoredEntries

MARK_PREFIX = b"copied/"
_NUMBER = struct.Struct(">Q")


def mark_change(partition: int, *, is_marked: bool = True) -> Change:
    """Mark a partition, or take the mark away."""
    return Change(MARK_PREFIX + _NUMBER.pack(partition), b"" if is_marked else None)


def is_marked(metadata: StoredEntries, partition: int) -> bool:
    """Whether a partition has the mark."""
    return metadata.get(MARK_PREFIX + _NUMBER.pack(partition)) is not None


def marked_partitions(metadata: StoredEntries) -> Iterator[int]:
    """The numbers of all that have it."""
    for key, _ in metadata.scan(MARK_PREFIX):
        yield _NUMBER.unpack(key.removeprefix(MARK_PREFIX))[0]
