"""What a transaction settles, before it is settled: of which cursors, and as it stands in the journal."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from routelog.log_backend.journal.journal_block import Reason, Settlement
from routelog.log_backend.journal.journal_entry import JournalEntry
from routelog.log_backend.settlement.settled import SettledSet
from routelog.log_backend.settlement.settled_chunk import CHUNK_OFFSETS, Runs


@dataclass(frozen=True, slots=True)
class SettledPart:
    """Offsets of a partition that a cursor of it will have settled.

    Attributes:
        partition: its number.
    """

    partition: int
    settlement: Settlement

    def entry(self) -> JournalEntry:
        """What the journal has to know."""
        return JournalEntry(self.partition, self.settlement)


class SettledEntries:
    """What cursors will have settled, as it will stand in a block: encoded beforehand.

    Attributes:
        content: the bytes of the entries, one behind the other.
        count: entries.
    """

    __slots__ = ("content", "count")

    def __init__(self, settled: Iterable[SettledPart] = ()) -> None:
        self.content = bytearray()
        self.count = 0
        for each in settled:
            self.add(each)

    def add(self, settled: SettledPart) -> None:
        """Add an entry."""
        self.content += settled.entry().encode()
        self.count += 1


def settlements_of(settled: SettledSet, cursor: int, reason: Reason) -> Iterator[Settlement]:
    """What the journal has to know of all that a set holds: an entry a chunk."""
    if settled.low_water:
        yield Settlement(cursor, [(0, settled.low_water)], reason)
    for number, chunk in settled.chunks.items():
        base = number * CHUNK_OFFSETS
        if isinstance(chunk, Runs):
            ranges = [(base + first, base + end) for first, end in chunk.runs()]
            yield Settlement(cursor, ranges, reason)
        else:
            yield Settlement.of_bits(cursor, base, chunk.encode(), reason)
