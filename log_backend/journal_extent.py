"""Which files a journal must have: one that is gone as a whole leaves no trace among the others.

In the metadata store, big-endian::

    b"journal/first" -> u64, number of the first file whose entries are not durable elsewhere
    b"journal/last"  -> u64, number of the last file that was given a name

Numbers have no gaps. The first is stored by the checkpoint that covers the files below it, before they get
other names; the last when the file has its name, before anything is written there. So every file from the first
to the last one is there, and none behind the last has a block.
"""

import struct
from collections.abc import Collection

from log_backend.metadata import Change, MetadataStore

_FIRST = b"journal/first"
_LAST = b"journal/last"
_NUMBER = struct.Struct(">Q")


class JournalExtent:
    """What the metadata say of a journal's files."""

    def __init__(self, metadata: MetadataStore) -> None:
        self._metadata = metadata

    @property
    def last(self) -> int:
        """Number of the last file that may have blocks; 0 when there is none."""
        return self._number(_LAST)

    def missing(self, numbers: Collection[int]) -> list[int]:
        """Numbers of files that there must be, and that are not among these."""
        first = max(1, self._number(_FIRST))
        return sorted(set(range(first, self.last + 1)).difference(numbers))

    def named(self, number: int) -> None:
        """A file has its name, durably; blocks.

        Raises:
            MetadataUnavailable: nothing may be written there.
        """
        self._metadata.apply([_change(_LAST, number)], synced=True)

    @staticmethod
    def begins_with(number: int) -> Change:
        """What to store when the files below a number are not needed any more."""
        return _change(_FIRST, number)

    @staticmethod
    def only(number: int) -> list[Change]:
        """What to store when one file takes the place of all."""
        return [_change(_FIRST, number), _change(_LAST, number)]

    def _number(self, key: bytes) -> int:
        entry = self._metadata.get(key)
        if entry is None:
            return 0
        number: int = _NUMBER.unpack(entry.value)[0]
        return number


def _change(key: bytes, number: int) -> Change:
    return Change(key, _NUMBER.pack(number))
