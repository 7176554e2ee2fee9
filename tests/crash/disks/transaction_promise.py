"""What a node promised about a transaction: a crash takes all of it, or nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

Ranges = Mapping[str, tuple[int, int]]  # [first, end) by the name of the queue


class PromiseBroken(Exception):
    """The node lost, invented or brought back a record, gave an offset twice, or did half of a transaction."""


@dataclass
class TransactionPromise:
    """One transaction; nothing else settles what it appended, or is to settle what it settled.

    Attributes:
        position: of the journal; None: it belongs to another run, or nothing is appended so far.
        confirmed: the journal reached it.
    """

    position: int | None
    appended: dict[str, tuple[int, int]]
    settled: Ranges
    confirmed: bool = False

    def copy(self) -> Self:
        """The promise of this moment; one that waits for the journal was not made."""
        return type(self)(None, dict(self.appended), self.settled, self.confirmed)

    def durable(self, position: int) -> None:
        """The journal has reached a position."""
        self.confirmed |= self.position is not None and self.position <= position

    def check(self, found: Mapping[str, Mapping[int, bytes]]) -> None:
        """Hold what a recovered node has to it.

        Args:
            found: by the name of a queue, offset and body of what is unsettled.

        Raises:
            PromiseBroken: some of the transaction is there, or it was confirmed and is not.
        """
        signs = {
            (name, offset): (offset in found.get(name, {})) is (ranges is self.appended)
            for ranges in (self.appended, self.settled)
            for name, (first, end) in ranges.items()
            for offset in range(first, end)
        }
        if len(set(signs.values())) > 1:
            raise PromiseBroken(f"a part of a transaction: {signs}")
        if self.confirmed and not all(signs.values()):
            raise PromiseBroken(f"a confirmed transaction is gone: {signs}")
