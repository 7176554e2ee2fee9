"""Reading a journal back: what counts, where it ends, and what is damage.

Blocks that were written and not synced may survive a power cut or not, each on its own. So the journal ends
before the first block that is missing, whatever lies behind, unless some block there says that the missing
one had been durable: then it is damaged.
"""

from collections import deque
from collections.abc import Iterator
from pathlib import Path

from log_backend.journal_block import BLOCK_ALIGNMENT, MAGIC, Block, FileMark, aligned, decode_block
from log_backend.journal_files import JournalFiles


class JournalDamaged(Exception):
    """A block that was durable is missing or damaged; the journal file and place are named."""

    def __init__(self, path: Path, at: int, position: int) -> None:
        super().__init__(f"{path} is damaged before byte {at}: commit {position} is missing")
        self.path = path


class JournalReader:
    """Reads a journal once, from its first file to its last.

    Attributes:
        end: position behind the last block that counts; 0 when there is none.
        doubtful: place and size of the blocks that no later one calls durable. If their sync has failed,
            only the system's cache has them, and takes them for written.
        behind: where blocks lie that are whole and do not count: they come behind one that is
            missing and never was durable. They must be erased before the journal goes on.
    """

    def __init__(self, files: JournalFiles) -> None:
        self._files = files
        self.end = 0
        self.doubtful: dict[FileMark, list[tuple[int, int]]] = {}
        self.behind: dict[FileMark, list[int]] = {}

    def blocks(self) -> Iterator[Block]:
        """The blocks that count, in order; to be used up.

        Raises:
            JournalDamaged: a block that had been durable cannot be read.
        """
        missing = 0
        unvouched: deque[tuple[int, FileMark, int, int]] = deque()
        for mark in self._files.marks():
            for at, block in whole_blocks(self._files.read(mark), mark):
                expected = self.end or block.first
                if not missing and block.position == expected:
                    self.end = block.position + 1
                    while unvouched and unvouched[0][0] <= block.durable:
                        unvouched.popleft()
                    unvouched.append((block.position, mark, at, aligned(block.length)))
                    yield block
                    continue
                missing = missing or expected
                if block.durable >= missing:
                    raise JournalDamaged(self._files.path(mark), at, missing)
                self.behind.setdefault(mark, []).append(at)
        for _, mark, at, size in unvouched:
            self.doubtful.setdefault(mark, []).append((at, size))


def whole_blocks(content: bytearray, mark: FileMark) -> Iterator[tuple[int, Block]]:
    """Every whole block in a file and where it begins."""
    at = content.find(MAGIC)
    while at >= 0:
        block = None if at % BLOCK_ALIGNMENT else decode_block(content, at, mark)
        if block is not None:
            yield at, block
        at = content.find(MAGIC, aligned(at + (1 if block is None else block.length)))
