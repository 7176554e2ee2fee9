"""How messages come back to their queue that were handed out."""

from enum import Enum


class ReturnReason(Enum):
    """Why somebody else may have them.

    RabbitMQ's quorum queues count the first kind as failures of the consumer.
    """

    FAILED = "rejected, or their channel ended"
    RETURNED = "nacked, recovered, or not settled in time"
    UNUSED = "only looked at"
