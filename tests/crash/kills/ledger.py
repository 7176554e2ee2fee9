"""What a broker promised, message by message, and what it must and must not deliver.

A queue has one publisher, and its messages have sequence numbers. Several cursors may go through them: that
of the queue itself, and one of each consumer group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence


class PromiseBroken(Exception):
    """The broker lost, doubled, reordered or invented a message, or brought back a settled one."""


class MessageLedger:
    """The messages of one queue with a single publisher, by sequence number.

    Attributes:
        keys: message n has key n modulo this; the order of messages with the same key holds.
        published: sequence numbers below were sent.
        gone: sequence numbers below were in the queue, and nothing of it is left.
        confirmed: those that the broker took over and has to keep.
    """

    def __init__(self, queue: str, *, keys: int = 1, survives: bool = True) -> None:
        self.queue = queue
        self.keys = keys
        self.published = 0
        self.gone = 0
        self.confirmed: set[int] = set()
        self._survives = survives

    def crashed(self) -> None:
        """The broker ended in the way that the queue survives, or does not."""
        if not self._survives:
            self.confirmed.clear()

    def emptied(self) -> None:
        """Nothing of what was published is left in the queue."""
        self.gone = self.published
        self.confirmed.clear()

    def check_log(self, records: Sequence[tuple[int, int]]) -> None:
        """Check all that the log of a queue holds: offsets and sequence numbers.

        A crash may take messages that were not confirmed, while a cursor's snapshot knows their offsets:
        these are not given again. So an offset may be missing, but only with a message.

        Raises:
            PromiseBroken: something is missing, or it is not in order.
        """
        place, earlier = -1, self.gone - 1
        for offset, sequence in records:
            if not earlier < sequence < self.published:
                raise PromiseBroken(f"{self.queue}: its log has {sequence} behind {earlier}")
            if not place < offset <= place + sequence - earlier:
                raise PromiseBroken(f"{self.queue}: offset {offset} follows {place}")
            place, earlier = offset, sequence
        self.check_lost(self.confirmed - {sequence for _, sequence in records})

    def check_lost(self, lost: set[int]) -> None:
        """Raises PromiseBroken unless the set is empty."""
        if lost:
            some = sorted(lost)[:10]
            raise PromiseBroken(f"{self.queue}: {len(lost)} confirmed messages are lost: {some}")


class CursorLedger:
    """What one cursor's consumers were given and acknowledged.

    Args:
        matches: whether they are to get a message.

    Attributes:
        acked: an acknowledgement was sent; it may be lost in a crash.
        settled: acknowledged, and a later confirm on the same channel says that the broker knows.
    """

    def __init__(
        self,
        name: str,
        messages: MessageLedger,
        matches: Callable[[int], bool] = lambda sequence: True,
    ) -> None:
        self.name = name
        self.messages = messages
        self._matches = matches
        self.acked: set[int] = set()
        self.settled: set[int] = set()
        self._drained = messages.gone
        self._earlier = [-1] * messages.keys

    def connected(self) -> None:
        """Another connection consumes, from the first message that is not settled."""
        self._earlier = [-1] * self.messages.keys

    def check_delivery(self, sequence: int) -> None:
        """Check one delivery on a connection without requeues.

        Raises:
            PromiseBroken: it should not have been made.
        """
        key = sequence % self.messages.keys
        earlier, self._earlier[key] = self._earlier[key], sequence
        if sequence <= earlier:
            raise PromiseBroken(f"{self.name}: {sequence} came after {earlier}")
        if sequence >= self.messages.published:
            raise PromiseBroken(f"{self.name}: {sequence} was never published")
        if not self._matches(sequence):
            raise PromiseBroken(f"{self.name}: {sequence} does not match")
        if sequence in self.settled or sequence < self._drained:
            raise PromiseBroken(f"{self.name}: {sequence} came back after it was settled")

    def check_count(self, ready: int) -> None:
        """Check how many messages are ready, while nobody consumes.

        Raises:
            PromiseBroken: too few or too many.
        """
        least = len(self._confirmed() - self.acked)
        most = self.messages.published - self._drained - len(self.settled)
        if not least <= ready <= most:
            raise PromiseBroken(f"{self.name}: {ready} messages, not {least} to {most}")

    def check_drained(self, sequences: Sequence[int]) -> None:
        """Check all that was delivered to the consumer that took everything.

        Raises:
            PromiseBroken: something confirmed is missing, or something should not be there.
        """
        self.connected()
        for sequence in sequences:
            self.check_delivery(sequence)
        self.messages.check_lost(self._confirmed() - self.acked - set(sequences))

    def drained(self) -> None:
        """Everything was drained, acknowledged, and the broker knows."""
        self._drained = self.messages.published
        self.acked.clear()
        self.settled.clear()

    def _confirmed(self) -> set[int]:
        confirmed = self.messages.confirmed
        return {each for each in confirmed if each >= self._drained and self._matches(each)}
