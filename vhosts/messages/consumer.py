"""The interface of a consumer, as a queue sees it."""

from typing import Protocol

from routelog.vhosts.errors import QueueStopped
from routelog.vhosts.messages.delivery import Delivery

CREDIT_UNLIMITED = 1 << 40


class Consumer(Protocol):
    """Takes deliveries as long as it has credit.

    Attributes:
        no_ack: deliveries are settled when they are handed over.
        exclusive: the only consumer of its queue.
        priority: higher ones are served first while they have credit.
        tag: its consumer tag.
        unacked: deliveries it has not settled, those included that were taken back from it.
    """

    no_ack: bool
    exclusive: bool
    priority: int
    tag: str
    unacked: int

    def credit(self) -> int:
        """How many messages the consumer takes now; CREDIT_UNLIMITED at most."""

    def deliver(self, delivery: Delivery) -> None:
        """Take a delivery of at most `credit()` messages."""

    def queue_stopped(self, error: QueueStopped) -> None:
        """The next message cannot be read; no more deliveries will come."""

    def queue_deleted(self) -> None:
        """The queue was deleted; no more deliveries will come."""
