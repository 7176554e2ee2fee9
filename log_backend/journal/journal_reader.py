"""Reading a journal back: what counts, where it ends, and what is damage.

Blocks that were written and not synced may survive a power cut or not, each on its own. So the journal ends
before the first block that is missing, whatever lies behind, unless some block there says that the missing
one had been committed, or the metadata store has changes from there or from behind it: then it is damaged. A
block that does not follow the last one, by position, epoch and checksum, is not the one that is missing. A file
without the mark of its end is damaged, too.
"""

import logging
import struct
from array import array
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from routelog.log_backend.doors.disk import Disk
from routelog.log_backend.journal.journal_block import (
    BLOCK_ALIGNMENT,
    BLOCK_HEADER_BYTES,
    CHAIN_AT,
    MAGIC,
    Block,
    FileMark,
    aligned,
    decode_block,
)
from routelog.log_backend.journal.journal_chain import START, Mark
from routelog.log_backend.journal.journal_extent import JournalExtent
from routelog.log_backend.journal.journal_files import JournalFiles, find_end
from routelog.log_backend.segments.segment_file import FILE_MISSING

log = logging.getLogger(__name__)

UNKNOWN_FILE = (
    "the metadata know nothing of this file: they are older than the journal, or incomplete"
)

_FILE = struct.Struct("<QQ")
_POSITION = struct.Struct("<12xQ")


class JournalDamaged(Exception):
    """A block that was durable is missing or damaged; the journal file and place are named."""

    def __init__(self, path: Path, at: int, reason: str) -> None:
        super().__init__(
            f"{path} is damaged at byte {at}: {reason}; 'routelog log verify' says what is lost, "
            "'routelog log repair' keeps the rest"
        )
        self.path = path
        self.at = at
        self.reason = reason


class JournalReader:
    """Reads a journal from its first file to its last.

    Attributes:
        end: the last block that counts; where there is none, the one before the journal's first.
        base: the block before the first that counts.
        committed: the highest position that a block calls committed, or that the metadata store has.
        ends: the same as `end`, of each file.
        places: where the blocks of each file begin that count.
        filled: where the last of them ends.
        doubtful: place and size of the blocks that no later one calls committed. If their sync has failed,
            only the system's cache has them, and takes them for written.
        behind: where blocks lie that are whole and do not count: they come behind one that is
            missing and never was committed. They must be erased before the journal goes on.
        last_pages: where the last page of each file begins.
    """

    def __init__(self, files: JournalFiles, extent: JournalExtent | None = None) -> None:
        self._files = files
        self._extent = extent
        self._is_checked = False
        self.end = self.base = START
        self.committed = 0
        self.places: dict[FileMark, array[int]] = {}
        self.filled: dict[FileMark, int] = {}
        self.ends: dict[FileMark, Mark] = {}
        self.doubtful: dict[FileMark, list[tuple[int, int]]] = {}
        self.behind: dict[FileMark, list[int]] = {}
        self.last_pages: dict[FileMark, int] = {}

    def blocks(self) -> Iterator[Block]:
        """The blocks that count, in order; to be used up.

        Another call reads them again, and nothing else, of files that nobody has changed since.

        Raises:
            JournalDamaged: a block that had been durable cannot be read, or a file is not whole.
        """
        if self._is_checked:
            yield from self._found_blocks()
            return
        for path in self._files.half_repaired():
            raise JournalDamaged(path, 0, "a repair was interrupted, run it again")
        marks = self._files.marks()
        last = self._known_last(marks)
        beginning = None if self._extent is None else self._extent.beginning
        unknown = START if beginning is None else beginning.before  # where no file has a block
        before: Mark | None = None
        missing = self.committed = 0
        self.base = unknown
        self.doubtful.clear()
        self.behind.clear()
        gap = last_place = (
            Path(),
            0,
        )  # where the missing block should be; behind the last that counts
        unvouched: deque[tuple[int, FileMark, int, int]] = deque()
        for mark in marks:
            content = self._files.read(mark)
            path = self._files.path(mark)
            end = 0
            if beginning is not None and mark.number == beginning.number and before is None:
                before, last_place = beginning.before, (path, 0)
            places = self.places[mark] = array("Q")
            self.last_pages[mark] = self._last_page(path, content)
            for at, block in whole_blocks(content, mark):
                if last is not None and mark.number > last:
                    raise JournalDamaged(path, at, UNKNOWN_FILE)
                if before is None:  # nobody knows which one it is
                    self.base = before = Mark(block.first - 1, 0, block.previous)
                if not missing and before.precedes(block):
                    before = block.mark
                    self.committed = max(self.committed, block.committed)
                    places.append(at)
                    while unvouched and unvouched[0][0] <= block.committed:
                        unvouched.popleft()
                    unvouched.append((block.position, mark, at, aligned(block.length)))
                    end = at + aligned(block.length)
                    last_place = (path, end)
                    yield block
                    continue
                if not missing:
                    missing = before.position + 1
                    gap = (path, end) if missing >= block.first else last_place
                if block.committed >= missing:
                    raise JournalDamaged(*gap, f"commit {missing} is missing")
                self.behind.setdefault(mark, []).append(at)
            is_told = mark in self.ends
            following = 0 if before is None else before.position + 1
            if not (missing or is_told) and claims_block(content, end, mark, following):
                log.warning(
                    "%s: commit %d at byte %d is torn, or damaged since; it is left out: what it held "
                    "was confirmed at the very end of the last run, if at all",
                    path,
                    following,
                    end,
                )
            self.ends[mark] = before or unknown
            self.filled[mark] = end
        self.end = before or unknown
        applied = 0 if self._extent is None else self._extent.applied
        self.committed = max(self.committed, applied, self.base.position)
        if applied > self.end.position:
            reason = f"commit {self.end.position + 1} is missing"
            raise JournalDamaged(*(gap if missing else last_place), reason)
        for _, mark, at, size in unvouched:
            self.doubtful.setdefault(mark, []).append((at, size))
        self._is_checked = True

    def _found_blocks(self) -> Iterator[Block]:
        for mark, places in self.places.items():
            content = self._files.read_begin(mark, self.filled[mark])
            for at in places:
                block = decode_block(content, at, mark)
                if block is None:
                    raise JournalDamaged(
                        self._files.path(mark), at, "a commit has changed since it was read"
                    )
                yield block

    def _known_last(self, marks: list[FileMark]) -> int | None:
        if self._extent is None:
            return None
        for number in self._extent.missing([mark.number for mark in marks]):
            raise JournalDamaged(self._files.any_path(number), 0, FILE_MISSING)
        return self._extent.last

    def _last_page(self, path: Path, content: bytearray) -> int:
        last_page = find_end(content)
        if last_page is None:
            raise JournalDamaged(path, len(content), "the mark at its end is missing")
        return last_page


def journal_end(directory: Path, disk: Disk, extent: JournalExtent) -> Mark:
    """The last block that counts of a journal that nobody writes.

    Raises:
        JournalDamaged: a block that had been durable cannot be read.
    """
    reader = JournalReader(JournalFiles(directory, disk), extent)
    for _ in reader.blocks():
        pass
    return reader.end


def whole_blocks(content: bytearray, mark: FileMark) -> Iterator[tuple[int, Block]]:
    """Every whole block in a file and where it begins."""
    at = content.find(MAGIC)
    while at >= 0:
        block = None if at % BLOCK_ALIGNMENT else decode_block(content, at, mark)
        if block is not None:
            yield at, block
        at = content.find(MAGIC, aligned(at + (1 if block is None else block.length)))


def claims_block(content: bytearray, at: int, mark: FileMark, position: int) -> bool:
    """Whether what is no whole block was meant as one: torn, or damaged.

    Two of four signs tell, so that damaged bytes hide nothing; what a recycled file held before has one.
    """
    header = bytes(content[at : at + BLOCK_HEADER_BYTES])
    if len(header) < BLOCK_HEADER_BYTES:
        return False
    place = *_FILE.unpack_from(header, 8), *_POSITION.unpack_from(header, CHAIN_AT)
    signs = (header[:4] == MAGIC, *map(int.__eq__, place, (*mark, position)))
    return sum(signs) >= 2
