"""What the arguments of a queue ask for beside keeping messages in order: all its rules, in one object.

A queue that asks for nothing has none, and neither it nor its partitions look any further.
"""

from collections.abc import Mapping
from typing import Protocol

from log_backend import Reason
from vhosts.dead_letters import DeadLetters, LetterSurroundings, letter_address
from vhosts.death import DeathReason
from vhosts.expiry import MILLISECOND, ExpiringQueue, Expiry, ExpirySurroundings
from vhosts.queue_lease import LeasedQueue, LeaseSurroundings, QueueLease
from vhosts.queue_partition import QueuePartition

RULE_ARGUMENTS = frozenset(("x-dead-letter-exchange", "x-expires", "x-message-ttl"))


class RuledQueue(ExpiringQueue, LeasedQueue, Protocol):
    """What rules need of their queue."""


class RuleSurroundings(LetterSurroundings, ExpirySurroundings, LeaseSurroundings, Protocol):
    """What rules need of their vhost."""


class QueueRules:
    """The rules of one queue.

    Attributes:
        dead_letters: what leaves the queue unconsumed.
        expiry: when the time of its messages is over.
        lease: when its own is; None: never.
    """

    def __init__(self, queue: RuledQueue, surroundings: RuleSurroundings) -> None:
        self._queue = queue
        self._surroundings = surroundings
        self.dead_letters = DeadLetters(queue.name, surroundings)
        self.expiry = Expiry(queue, surroundings, self._expired)
        self.lease: QueueLease | None = None

    def apply(self, arguments: Mapping[str, object]) -> None:
        """Go by other arguments from here on."""
        self.dead_letters.address = letter_address(arguments)
        ttl = arguments.get("x-message-ttl")
        self.expiry.ttl = ttl * MILLISECOND if isinstance(ttl, int) else None
        # Dead letters must not wait until somebody finds that their time is over.
        self.expiry.watchful = self.dead_letters.address is not None
        self.expiry.look_soon()
        if self.lease is not None:
            self.lease.stop()
        expires = arguments.get("x-expires")
        self.lease = (
            QueueLease(self._queue, self._surroundings, expires)
            if isinstance(expires, int)
            else None
        )

    def stop(self) -> None:
        """The queue is gone."""
        self.expiry.stop()
        if self.lease is not None:
            self.lease.stop()

    @property
    def idle(self) -> bool:
        """They ask for nothing, and nothing is under way."""
        asked = self.dead_letters.address, self.expiry.ttl, self.lease
        under_way = self.expiry.expected or self.dead_letters.waiting
        return asked == (None, None, None) and not under_way

    def publishing(self) -> None:
        """Messages are about to come in."""
        self.expiry.publishing()

    def takeable(self, partition: QueuePartition, count_max: int) -> int:
        """See `PartitionRules`."""
        return self.expiry.takeable(partition, count_max)

    def returned(self, partition: QueuePartition) -> None:
        """See `PartitionRules`."""
        self.expiry.look_soon()

    def settling(self, partition: QueuePartition, first: int, end: int, reason: Reason) -> bool:
        """See `PartitionRules`."""
        if reason is not Reason.REJECTED:
            return False
        self.dead_letters.discard(partition, first, end, DeathReason.REJECTED)
        return True

    def _expired(self, partition: QueuePartition, first: int, end: int) -> None:
        self.dead_letters.discard(partition, first, end, DeathReason.EXPIRED)


def has_rules(arguments: Mapping[str, object]) -> bool:
    """Whether arguments ask for anything that `QueueRules` does."""
    return not RULE_ARGUMENTS.isdisjoint(arguments)
