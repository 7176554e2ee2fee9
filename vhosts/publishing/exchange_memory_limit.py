"""How much all exchanges of a node remember together: with more, the largest forget."""

from collections.abc import Callable
from typing import Protocol

HISTORIES_BYTES_MAX = 128 * 1_048_576  # where no limit is set: half of what tails may have
KEYS_MAX = 10_000_000  # of all deduplication exchanges, as many as one may have: 2 GB
KEY_BYTES = 200  # of memory, about
# Of the limit, an eighth is made room for at once: whoever is the largest is looked for
FORGOTTEN_SHARE = 8


class LimitedHistory(Protocol):
    """The messages that one exchange keeps; `bytes` are theirs."""

    bytes: int

    def forget_down_to(self, size: int) -> None:
        """Keep so many bytes of the newest messages at most."""


class ExchangeMemoryLimit:
    """One of a node.

    Attributes:
        bytes: of all histories.
        keys: of all deduplication exchanges.

    Args:
        bytes_max: of all histories.
        hold: called with the change of what histories and keys take of memory.
    """

    def __init__(self, bytes_max: int, hold: Callable[[int], None]) -> None:
        self._bytes_max = bytes_max
        self._hold = hold
        self.bytes = 0
        self.keys = 0
        self._histories: set[LimitedHistory] = set()

    def add(self, history: LimitedHistory) -> None:
        """A history begins."""
        self._histories.add(history)

    def remove(self, history: LimitedHistory) -> None:
        """It has forgotten all, and ends."""
        self._histories.discard(history)

    def grew(self, size: int) -> None:
        """Histories are so many bytes more, or fewer."""
        self.bytes += size
        self._hold(size)

    def keys_grew(self, count: int) -> None:
        """Exchanges remember so many keys more, or fewer."""
        self.keys += count
        self._hold(count * KEY_BYTES)

    @property
    def surplus_keys(self) -> int:
        """How many keys are too many: the exchange that has come to them forgets its oldest."""
        return max(0, self.keys - KEYS_MAX)

    def keep(self, newest: LimitedHistory) -> None:
        """A history has grown: make room where it is too much."""
        if self.bytes <= self._bytes_max:
            return
        room = self._bytes_max - self._bytes_max // FORGOTTEN_SHARE
        share = room // len(self._histories)
        if newest.bytes > share:
            newest.forget_down_to(max(share, newest.bytes - (self.bytes - room)))
        while self.bytes > room:
            # Whoever is larger than its share is there as long as they are too much.
            largest = max(self._histories, key=lambda history: history.bytes)
            largest.forget_down_to(max(share, largest.bytes - (self.bytes - room)))
