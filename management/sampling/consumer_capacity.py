"""How much of the time the consumers of a queue could take a message at once, from looks at them now and then.

The data plane counts nothing for this: a look every five seconds finds each state as often as it lasts.
"""

from itertools import islice

from routelog.vhosts import Queue

WEIGHT = 0.2  # of a look: 5 looks of the same kind, 25 s, are two thirds of the value
CONSUMERS_MAX = 64  # looked at for one with credit: 10 us


class ConsumerCapacity:
    """The shares of time by queue, for queues in which something happens."""

    def __init__(self) -> None:
        self._shares: dict[Queue, float] = {}

    def look(self, queue: Queue) -> None:
        """Note whether a consumer could take a message now."""
        if not queue.consumers:
            self._shares.pop(queue, None)
            return
        now = float(takes_more(queue))
        before = self._shares.get(queue, now)
        self._shares[queue] = before + (now - before) * WEIGHT

    def forget(self, queue: Queue) -> None:
        """The queue is deleted."""
        self._shares.pop(queue, None)

    def of(self, queue: Queue, *, is_idle: bool) -> float:
        """The share of time, from 0 to 1; 0 without consumers.

        Args:
            is_idle: nothing happened in it since the newest sample, so it is as it was.
        """
        if not queue.consumers:
            return 0.0
        share = None if is_idle else self._shares.get(queue)
        return round(share if share is not None else float(takes_more(queue)), 3)


def takes_more(queue: Queue) -> bool:
    """Whether a consumer of a queue has credit."""
    return any(consumer.credit() > 0 for consumer in islice(queue.consumers, CONSUMERS_MAX))
