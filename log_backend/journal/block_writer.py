"""Writing the journal's blocks, one after the other, each synced when something in it asks for that."""

from typing import NamedTuple

from routelog.log_backend.doors.disk import Disk
from routelog.log_backend.journal.journal_block import BLOCK_ALIGNMENT, BLOCK_HEADER_BYTES, aligned
from routelog.log_backend.journal.journal_chain import START, Mark
from routelog.log_backend.journal.journal_files import JournalFile, JournalFiles
from routelog.log_backend.journal.journal_groups import JournalGroup
from routelog.log_backend.records.record_batch import Octets

Erasure = list[tuple[JournalFile, list[int]]]  # where blocks begin


class PlacedGroup(NamedTuple):
    """A group and where its block goes."""

    file: JournalFile
    at: int
    committed: int  # position that the block calls committed
    group: JournalGroup
    block: bytearray | None = None  # its bytes, where they are made already


class BlockWriter:
    """What blocks; one call at a time, from whatever thread.

    Attributes:
        end: the last block that is written.
        shard: whose journal it is.
    """

    def __init__(self, disk: Disk, files: JournalFiles) -> None:
        self._disk = disk
        self._files = files
        self.end = START
        self.shard = 0  # a node on its own has one
        self._unsynced: set[int] = set()  # one may have been recycled since, which does no harm

    def write(self, placed: PlacedGroup) -> None:
        """Write a block, and sync it and all before it if it has to survive a power cut.

        Raises:
            DiskFull: nothing was written.
            OSError: what the disk has is unknown; final.
        """
        file, at, _, group, made = placed
        end = at + aligned(BLOCK_HEADER_BYTES + group.bytes)
        if end > file.size:  # larger than a whole file
            self._files.grow(file, end)
        block = [made] if made else self._pieces(placed)
        if group.synced and not self._unsynced:
            self._disk.write_synced(file.file, at, block)
        else:
            self._unsynced.add(file.file)
            self._disk.write(file.file, at, block)
            if group.synced:
                self.sync()
        self.end = file.end = Mark(group.position, group.epoch, group.checksum)

    def encode(self, placed: PlacedGroup) -> bytearray:
        """The bytes of the block that is written next, which is made here."""
        block: bytearray = placed.group.block(*self._place(placed))
        return block

    def _pieces(self, placed: PlacedGroup) -> list[Octets]:
        # What another node made was held against its checksum when it came.
        if not placed.group.checksum:
            return [self.encode(placed)]
        pieces: list[Octets] = placed.group.given_block(*self._place(placed))
        return pieces

    def _place(self, placed: PlacedGroup) -> tuple[int, ...]:
        file, _, committed, group, _ = placed
        return (*file.mark, file.first, committed, self.shard, group.epoch, self.end.checksum)

    def erase(self, erasure: Erasure) -> None:
        """Make blocks unreadable, for good; those before them are durable then.

        Raises:
            OSError: what the disk has is unknown; final.
        """
        for file, places in erasure:
            for at in places:
                self._disk.write(file.file, at, [bytes(BLOCK_ALIGNMENT)])
            self._unsynced.add(file.file)
        self.sync()

    def sync(self) -> None:
        """Make all that is written durable.

        Raises:
            OSError: what the disk has is unknown; final.
        """
        for file in self._unsynced:
            self._disk.sync(file)
        self._unsynced.clear()
