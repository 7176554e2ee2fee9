"""What the arguments of a queue ask for beside keeping messages in order: all its rules, in one object.

A queue that asks for nothing has none, and neither it nor its partitions look any further.
"""

from collections.abc import Mapping
from typing import Protocol

from log_backend import Reason
from vhosts.dead_letters import DeadLetters, LetterSurroundings, letter_address
from vhosts.death import DeathReason
from vhosts.queue_partition import QueuePartition


class RuleSurroundings(LetterSurroundings, Protocol):
    """What rules need of their vhost."""


class QueueRules:
    """The rules of one queue.

    Attributes:
        dead_letters: what leaves the queue unconsumed.
    """

    def __init__(self, queue: str, surroundings: RuleSurroundings) -> None:
        self.dead_letters = DeadLetters(queue, surroundings)

    def apply(self, arguments: Mapping[str, object]) -> None:
        """Go by other arguments from here on."""
        self.dead_letters.address = letter_address(arguments)

    @property
    def idle(self) -> bool:
        """They ask for nothing, and nothing is under way."""
        return self.dead_letters.address is None and not self.dead_letters.waiting

    def settling(self, partition: QueuePartition, first: int, end: int, reason: Reason) -> bool:
        """See `PartitionRules`."""
        if reason is not Reason.REJECTED:
            return False
        self.dead_letters.discard(partition, first, end, DeathReason.REJECTED)
        return True


def has_rules(arguments: Mapping[str, object]) -> bool:
    """Whether arguments ask for anything that `QueueRules` does."""
    return not RULE_ARGUMENTS.isdisjoint(arguments)


RULE_ARGUMENTS = frozenset(("x-dead-letter-exchange",))
