"""What the rules of a queue need of the queue."""

from typing import Protocol

from routelog.vhosts.counters.counters import MessageCounters
from routelog.vhosts.messages.consumer import Consumer
from routelog.vhosts.partitions.queue_partition import QueuePartition


class RuledQueue(Protocol):
    """A queue, as its rules see it."""

    name: str
    partitions: list[QueuePartition]
    consumers: list[Consumer]
    deleted: bool
    paused: bool
    counters: MessageCounters

    @property
    def consumer_count(self) -> int:
        """Consumers of all kinds; they use the queue as long as they are there."""

    @property
    def ready(self) -> int:
        """Messages that wait for a consumer."""

    @property
    def coming(self) -> int:
        """Messages that may not be handed out yet."""

    @property
    def has_turn(self) -> bool:
        """Whether the queue dispatches after this turn of the event loop."""
