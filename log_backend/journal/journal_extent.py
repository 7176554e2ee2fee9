"""What the metadata store says of the journal: where it begins, which files it has, and how much the store has.

In the metadata store, big-endian::

    b"journal/first" -> u64, number of the first file whose entries are not durable elsewhere
                        u64, u64, u32: position, epoch and checksum of the block before the first one
                        in it, or behind it
    b"journal/last"  -> u64, number of the last file that was given a name
    b"journal/applied" -> u64, position: the store has all METADATA entries up to there
    b"journal/committed" -> u64, position: the snapshots of cursors tell of nothing behind it

Numbers have no gaps. The first is stored by the checkpoint that covers the files below it, before they get
other names; the last when the file has its name, before anything is written there. So every file from the first
to the last one is there, and none behind the last has a block. Positions have no gaps either: when the first
block of these files has a higher one, the first file has lost all that it held. What is applied was durable, so
the journal does not end before that. What is committed is carried out by a start, though no block says so: a
snapshot knows of its offsets, and a replica that got its records later would pass over them.
"""

import struct
from collections.abc import Collection
from typing import NamedTuple

from routelog.log_backend.journal.journal_chain import START, Mark
from routelog.log_backend.metadata.metadata import Change, MetadataCorrupt, MetadataStore

_FIRST = b"journal/first"
_LAST = b"journal/last"
_APPLIED = b"journal/applied"
_COMMITTED = b"journal/committed"
_BEGINNING = struct.Struct(">QQQI")
_NUMBER = struct.Struct(">Q")


class Beginning(NamedTuple):
    """Number of the first file that is needed, and the block that is before it."""

    number: int
    before: Mark

    @property
    def position(self) -> int:
        """Of the first block from there on."""
        return self.before.position + 1


NEW = Beginning(1, START)


class JournalExtent:
    """What the metadata say of a journal's files."""

    def __init__(self, metadata: MetadataStore) -> None:
        self._metadata = metadata

    @property
    def beginning(self) -> Beginning:
        """Where it begins.

        Raises:
            MetadataCorrupt: another version has written the data directory.
        """
        entry = self._metadata.get(_FIRST)
        if entry is None:
            return NEW
        if len(entry.value) != _BEGINNING.size:
            found = f"{_FIRST.decode()} has {len(entry.value)} bytes, not {_BEGINNING.size}"
            raise MetadataCorrupt(f"{found}: another version has written this data directory")
        number, *before = _BEGINNING.unpack(entry.value)
        return Beginning(number, Mark(*before))

    @property
    def last(self) -> int:
        """Number of the last file that may have blocks; 0 when there is none."""
        return self._number(_LAST)

    @property
    def applied(self) -> int:
        """Position of the last block whose changes of metadata the store has."""
        return self._number(_APPLIED)

    @property
    def committed(self) -> int:
        """Position of a block that was committed, with all that the snapshots of cursors tell of."""
        return max(self.applied, self._number(_COMMITTED))

    def _number(self, key: bytes) -> int:
        entry = self._metadata.get(key)
        if entry is None:
            return 0
        number: int = _NUMBER.unpack(entry.value)[0]
        return number

    @staticmethod
    def applied_change(position: int) -> Change:
        """What to store together with the last changes of a block."""
        return Change(_APPLIED, _NUMBER.pack(position))

    @staticmethod
    def committed_change(position: int) -> Change:
        """What to store before snapshots of cursors: a block up to which all is committed."""
        return Change(_COMMITTED, _NUMBER.pack(position))

    def missing(self, numbers: Collection[int]) -> list[int]:
        """Numbers of files that there must be, and that are not among these."""
        return sorted(set(range(self.beginning.number, self.last + 1)).difference(numbers))

    def named(self, number: int) -> None:
        """A file has its name, durably; blocks.

        Raises:
            MetadataUnavailable: nothing may be written there.
        """
        self._metadata.apply([Change(_LAST, _NUMBER.pack(number))], synced=True)

    @staticmethod
    def begins_with(number: int, before: Mark) -> Change:
        """What to store when files below a number, and blocks up to one, are not needed any more."""
        return Change(_FIRST, _BEGINNING.pack(number, *before))

    @staticmethod
    def only(number: int, before: Mark) -> list[Change]:
        """What to store when one file, with the blocks behind one, takes the place of all."""
        return [
            JournalExtent.begins_with(number, before),
            Change(_LAST, _NUMBER.pack(number)),
            Change(_COMMITTED, None),
        ]
