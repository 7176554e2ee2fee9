"""Settlements of a transaction, encoded for the journal before they are applied."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from routelog.log_backend.journal.journal_block import Reason, Settlement
from routelog.log_backend.journal.journal_entry import JournalEntry
from routelog.log_backend.settlement.settled import SettledSet
from routelog.log_backend.settlement.settled_chunk import CHUNK_OFFSETS, Runs


@dataclass(frozen=True, slots=True)
class SettledPart:
    """A settlement that a transaction will apply to a cursor of the partition with this number."""

    partition: int
    settlement: Settlement


class SettledEntries:
    """Settlements as the journal entries of a block.

    Attributes:
        content: the encoded entries, end to end.
        count: of the entries.
    """

    __slots__ = ("content", "count")

    def __init__(self, settled: Iterable[SettledPart] = ()) -> None:
        self.content = bytearray()
        self.count = 0
        for each in settled:
            self.add(each)

    def add(self, settled: SettledPart) -> None:
        """Encode and add an entry."""
        self.content += JournalEntry(settled.partition, settled.settlement).encode()
        self.count += 1


def settlements_of(settled: SettledSet, cursor: int, reason: Reason) -> Iterator[Settlement]:
    """Yield settlements of all offsets in a set: one for each chunk."""
    if settled.low_water:
        yield Settlement(cursor, [(0, settled.low_water)], reason)
    for number, chunk in settled.chunks.items():
        base = number * CHUNK_OFFSETS
        if isinstance(chunk, Runs):
            ranges = [(base + first, base + end) for first, end in chunk.runs()]
            yield Settlement(cursor, ranges, reason)
        else:
            yield Settlement.of_bits(cursor, base, chunk.encode(), reason)
