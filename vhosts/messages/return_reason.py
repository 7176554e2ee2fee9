"""How messages come back to their queue that were handed out."""

from enum import Enum


class ReturnReason(Enum):
    """Why somebody else may have them; sessions send the numbers.

    RabbitMQ's quorum queues count the first kind as failures of the consumer.
    """

    FAILED = 1  # rejected, or their channel ended
    RETURNED = 2  # nacked, recovered, or not settled in time
    UNUSED = 3  # only looked at
