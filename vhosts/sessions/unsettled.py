"""The unsettled deliveries of one consumer of a session, or of the gets of one queue."""

from collections.abc import Iterator

from routelog.vhosts.messages.delivery import DeliverySource
from routelog.vhosts.sessions.offset_ranges import OffsetRanges
from routelog.vhosts.sessions.session_message import BadSessionMessage


class Unsettled:
    """What was delivered and not settled, by partition.

    A front settles what was delivered to it, and nothing else: not what another consumer has, nor what came
    back meanwhile and was delivered elsewhere.

    Attributes:
        count: messages.
    """

    __slots__ = ("_parts", "count")

    def __init__(self) -> None:
        self._parts: dict[int, tuple[DeliverySource, OffsetRanges]] = {}
        self.count = 0

    def add(self, partition: int, source: DeliverySource, first: int, end: int) -> None:
        """Messages [first, end) of a partition are delivered; a consumer has one source for it."""
        part = self._parts.get(partition)
        if part is None:
            part = self._parts[partition] = source, OffsetRanges()
        part[1].add(first, end)
        self.count += end - first

    def take(self, partition: int, first: int, end: int) -> DeliverySource:
        """Remove messages [first, end), at least one, that are settled or come back to what this returns.

        Raises:
            BadSessionMessage: some of them are not here; nothing was removed.
        """
        part = self._parts.get(partition)
        if part is None or not part[1].take(first, end):
            raise BadSessionMessage(
                f"messages {first} to {end} of partition {partition} are not unsettled there"
            )
        self.count -= end - first
        return part[0]

    def source(self, partition: int) -> DeliverySource | None:
        """Where deliveries of a partition came from; None: there have been none."""
        part = self._parts.get(partition)
        return None if part is None else part[0]

    @property
    def sources(self) -> Iterator[DeliverySource]:
        """All sources that deliveries came from."""
        return (source for source, _ in self._parts.values())

    def take_all(self) -> list[tuple[DeliverySource, OffsetRanges]]:
        """Remove everything; returns the sources with what is unsettled of each."""
        parts, self._parts, self.count = list(self._parts.values()), {}, 0
        return parts
