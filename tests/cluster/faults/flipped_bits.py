"""Bits that a disk has flipped, in the journal of a node that is down, or in a file of a queue."""

from pathlib import Path
from random import Random

from routelog.log_backend.journal.journal_block import BLOCK_HEADER_BYTES, MAGIC

PAGE_BYTES = 4_096
LENGTH_AT = 40  # in a block of the journal


def flip_journal(data: Path, randomness: Random) -> str:
    """Flip one bit of a journal; its file and the place are returned."""
    files = [path for path in sorted(data.glob("journal/*.journal")) if _pages(path)]
    return flip_bit(randomness.choice(files), randomness.random()) if files else "nothing"


def flip_segment(data: Path, randomness: Random) -> str:
    """Flip one bit of a segment; its file and the place are returned."""
    files = [path for path in sorted(data.glob("logs/*/*/*.log")) if _pages(path)]
    if not files:
        return "nothing"
    path = randomness.choice(files)
    place = randomness.randrange(len(path.read_bytes().rstrip(b"\0")))
    _flip(path, place)
    return f"{path.parent.name}/{path.name}:{place}"


def flip_bit(path: Path, at: float = 0.0) -> str:
    """Flip one bit of what a file holds; its name and the place are returned.

    Args:
        at: 0 to 1: where, of its pages that are not full of zeros, or blocks without entries.
    """
    pages = _pages(path)
    place = pages[int(at * len(pages))] + BLOCK_HEADER_BYTES
    _flip(path, place)
    return f"{path.name}:{place}"


def _flip(path: Path, place: int) -> None:
    with path.open("r+b") as file:
        file.seek(place)
        (byte,) = file.read(1)
        file.seek(place)
        file.write(bytes([byte ^ 1]))


def _pages(path: Path) -> list[int]:
    content = path.read_bytes()
    places = range(0, len(content), PAGE_BYTES)
    return [each for each in places if _holds_something(content[each : each + PAGE_BYTES])]


def _holds_something(page: bytes) -> bool:
    if not page.startswith(MAGIC):
        return any(page)
    return int.from_bytes(page[LENGTH_AT : LENGTH_AT + 4], "little") > BLOCK_HEADER_BYTES
