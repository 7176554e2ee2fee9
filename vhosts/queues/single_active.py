"""The consumers of a queue with `x-single-active-consumer` that wait to be the active one.

The next active consumer is the one of the highest priority that has waited longest. As in RabbitMQ, one of a
higher priority than the active one takes over in queues of type `quorum` only.
"""

from bisect import insort
from collections.abc import Collection

from routelog.vhosts.messages.consumer import Consumer


class WaitingConsumers:
    """Consumers in the order in which they become active."""

    __slots__ = ("consumers",)

    def __init__(self) -> None:
        self.consumers: list[Consumer] = []

    def add(self, consumer: Consumer) -> None:
        """Add a consumer, behind those of the same priority."""
        insort(self.consumers, consumer, key=_rank)

    def remove(self, gone: Collection[Consumer]) -> None:
        """Remove consumers; unknown ones are ignored."""
        self.consumers = [each for each in self.consumers if each not in gone]

    def above(self, active: Consumer) -> Consumer | None:
        """The consumer of a higher priority that is to take over from the active one.

        One that still has deliveries was the active one itself and did not settle them in time.
        """
        for each in self.consumers:
            if each.priority <= active.priority:
                return None
            if not each.unacked:
                return each
        return None

    def take(self) -> Consumer | None:
        """Remove and return the next consumer to be active."""
        return self.consumers.pop(0) if self.consumers else None

    def take_all(self) -> list[Consumer]:
        """Remove and return all consumers."""
        taken, self.consumers = self.consumers, []
        return taken


def _rank(consumer: Consumer) -> int:
    return -consumer.priority
