"""Publisher confirms of a channel: which publishes wait for which journal position."""

from collections import deque


class Confirms:
    """Publishes in order, each waiting for a journal position; 0 waits for nothing.

    A confirm covers everything before it (`multiple`), so a publish is confirmed when it and all
    before it are durable.

    Attributes:
        next_tag: delivery tag of the next publish.
    """

    __slots__ = ("_confirmed", "_waiting", "next_tag")

    def __init__(self) -> None:
        self.next_tag = 1
        self._confirmed = 0
        self._waiting: deque[tuple[int, int]] = deque()  # (last tag, journal position)

    def add(self, count: int, position: int) -> None:
        """Count publishes that are durable at a journal position."""
        self.next_tag += count
        last = self.next_tag - 1
        if self._waiting and self._waiting[-1][1] == position:
            self._waiting[-1] = (last, position)
        else:
            self._waiting.append((last, position))

    def waits(self) -> bool:
        """Whether some publish is not confirmed."""
        return bool(self._waiting)

    def take_durable(self, durable: int) -> tuple[int, bool] | None:
        """The tag up to which publishes can be confirmed, and whether that is more than one.

        Returns:
            None when there is nothing to confirm.
        """
        last = 0
        while self._waiting and self._waiting[0][1] <= durable:
            last = self._waiting.popleft()[0]
        if not last:
            return None
        several = last - self._confirmed > 1
        self._confirmed = last
        return last, several

    def take_all(self) -> tuple[int, bool] | None:
        """The tag up to which publishes must be refused because the journal failed."""
        return self.take_durable(1 << 63)
