"""The consumers of a queue with `x-single-active-consumer` that wait until the active one is gone.

The next one is the one of the highest priority that has waited longest. An active consumer stays active when
one of a higher priority comes, as with classic queues of RabbitMQ.
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
        """Wait behind those of the same priority."""
        insort(self.consumers, consumer, key=_rank)

    def remove(self, gone: Collection[Consumer]) -> None:
        """Wait no more; those that do not wait are no error."""
        self.consumers = [each for each in self.consumers if each not in gone]

    def take(self) -> Consumer | None:
        """The next one to be active, which waits no more."""
        return self.consumers.pop(0) if self.consumers else None

    def take_all(self) -> list[Consumer]:
        """All of them; none waits any more."""
        taken, self.consumers = self.consumers, []
        return taken


def _rank(consumer: Consumer) -> int:
    return -consumer.priority
