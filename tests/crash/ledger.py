"""What a broker promised, message by message, and what it must and must not deliver."""

from __future__ import annotations

from collections.abc import Sequence


class PromiseBroken(Exception):
    """The broker lost, doubled, reordered or invented a message, or brought back a settled one."""


class QueueLedger:
    """The messages of one queue with a single publisher, by sequence number.

    Attributes:
        published: sequence numbers below were sent.
        confirmed: those that the broker took over, and that were not drained.
        acked: an acknowledgement was sent; it may be lost in a crash.
        settled: acknowledged, and a later confirm on the same channel says that the broker knows.
    """

    def __init__(self, queue: str) -> None:
        self.queue = queue
        self.published = 0
        self.confirmed: set[int] = set()
        self.acked: set[int] = set()
        self.settled: set[int] = set()
        self._drained = 0

    def check_delivery(self, sequence: int, earlier: int) -> None:
        """Check one delivery on a connection without requeues.

        Args:
            earlier: sequence number of the delivery before it; -1 if it is the first.

        Raises:
            PromiseBroken: it should not have been made.
        """
        if sequence <= earlier:
            raise PromiseBroken(f"{self.queue}: {sequence} came after {earlier}")
        if sequence >= self.published:
            raise PromiseBroken(f"{self.queue}: {sequence} was never published")
        if sequence in self.settled or sequence < self._drained:
            raise PromiseBroken(f"{self.queue}: {sequence} came back after it was settled")

    def check_count(self, ready: int) -> None:
        """Check how many messages the queue says it has, while nobody consumes.

        Raises:
            PromiseBroken: too few or too many.
        """
        least = len(self.confirmed - self.acked)
        most = self.published - self._drained - len(self.settled)
        if not least <= ready <= most:
            raise PromiseBroken(f"{self.queue}: {ready} messages, not {least} to {most}")

    def check_drained(self, sequences: Sequence[int]) -> None:
        """Check all that a drain of the queue delivered.

        Raises:
            PromiseBroken: something confirmed is missing, or something should not be there.
        """
        earlier = -1
        for sequence in sequences:
            self.check_delivery(sequence, earlier)
            earlier = sequence
        lost = self.confirmed - self.acked - set(sequences)
        if lost:
            some = sorted(lost)[:10]
            raise PromiseBroken(f"{self.queue}: {len(lost)} confirmed messages are lost: {some}")

    def drained(self) -> None:
        """Everything was drained, acknowledged, and the broker knows."""
        self._drained = self.published
        for sequences in (self.confirmed, self.acked, self.settled):
            sequences.clear()
