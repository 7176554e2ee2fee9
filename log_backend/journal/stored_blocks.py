"""Where the blocks of a running journal lie: in files that were not given back."""

import errno
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from routelog.log_backend.doors.disk import Disk
from routelog.log_backend.journal.block_writer import Erasure
from routelog.log_backend.journal.journal_block import (
    BLOCK_HEADER_BYTES,
    Block,
    decode_block,
    decode_mark,
)
from routelog.log_backend.journal.journal_chain import START, Mark, ShardBlock
from routelog.log_backend.journal.journal_files import JournalFile


class BlockPlace(NamedTuple):
    """A block, and where it was: its file may have been given back since."""

    file: JournalFile
    position: int
    at: int
    end: int  # of the room that it takes


class StoredBlocks:
    """The blocks of the journal's files, in order.

    Attributes:
        base: the block before the first.
    """

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._files: list[JournalFile] = []
        self.base = START

    def add(self, file: JournalFile) -> None:
        """The next file; blocks may join it."""
        self._files.append(file)

    def forget(self, file: JournalFile) -> None:
        """A file is given back: the first one."""
        self._files.remove(file)
        self.base = max(self.base, file.end)

    def mark(self, position: int) -> Mark | None:
        """The block at a position, or the base; None: it is not here. Reads the block's header."""
        if position == self.base.position:
            return self.base
        for place in self._behind(position - 1):
            header = self._disk.read(place.file.file, place.at, BLOCK_HEADER_BYTES)
            mark = decode_mark(header, place.file.mark)
            return mark if mark is not None and mark.position == position else None
        return None

    def places(self, after: int, end: int, bytes_max: int) -> list[BlockPlace]:
        """Where the blocks (after, end] are: of the first ones, one at least, and not many more bytes.

        Returns:
            Empty: the block behind `after` is not here.
        """
        found: list[BlockPlace] = []
        size = 0
        for place in self._behind(after):
            size += place.end - place.at
            if place.position > end or (found and size > bytes_max):
                break
            found.append(place)
        return found if found and found[0].position == after + 1 else []

    def bytes_behind(self, position: int) -> int:
        """The room that the blocks behind a position take, as far as they are here."""
        size = 0
        for file in self._files:
            index = max(0, position + 1 - file.first)
            if index < len(file.places):
                size += file.at - file.places[index]
        return size

    def read(self, places: Sequence[BlockPlace]) -> list[ShardBlock]:
        """Read blocks, up to the first that has gone meanwhile; in whatever thread."""
        found: list[ShardBlock] = []
        for place in places:
            try:
                content = self._disk.read(place.file.file, place.at, place.end - place.at)
            except OSError as error:
                if error.errno != errno.EBADF:  # it was removed
                    raise
                break
            block = decode_block(content, 0, place.file.mark)
            if block is None or block.position != place.position:
                break
            found.append(_shard_block(block))
        return found

    def cut(self, end: Mark) -> Erasure:
        """Forget the blocks behind one.

        Returns:
            Where they begin, by file.
        """
        cut: Erasure = []
        for file in self._files:
            kept = max(0, end.position + 1 - file.first) if file.places else 0
            gone = list(file.places[kept:])
            if gone:
                cut.append((file, gone))
                file.at = gone[0]
                del file.places[kept:]
                if not kept:
                    file.first = 0
            file.end = min(file.end, end)
        return cut

    def _behind(self, position: int) -> Iterator[BlockPlace]:
        for file in self._files:
            count = len(file.places)
            for index in range(max(0, position + 1 - file.first), count):
                end = file.places[index + 1] if index + 1 < count else file.at
                yield BlockPlace(file, file.first + index, file.places[index], end)


def _shard_block(block: Block) -> ShardBlock:
    return ShardBlock(
        block.shard, block.epoch, block.position, block.previous, block.payload, block.checksum
    )
