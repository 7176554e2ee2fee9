"""The lease of a queue with `x-expires`: an unused queue is deleted when its lease ends."""

from routelog.vhosts.rules.rule_services import RuleServices
from routelog.vhosts.rules.ruled_queue import RuledQueue


class QueueLease:
    """The lease of one queue.

    Every declaration, `basic.get` and consumer that leaves renews it, and so does a start of the broker.
    """

    def __init__(self, queue: RuledQueue, services: RuleServices, milliseconds: int) -> None:
        self._queue = queue
        self._rule_services = services
        self._seconds = milliseconds / 1_000
        self._timer = services.call_later(self._seconds, self._over)

    def renew(self) -> None:
        """The queue was used: start the lease anew."""
        self._timer.cancel()
        if not self._queue.deleted:
            self._timer = self._rule_services.call_later(self._seconds, self._over)

    def stop(self) -> None:
        """End the lease without deleting the queue."""
        self._timer.cancel()

    def _over(self) -> None:
        # A queue with consumers is in use: the lease starts when the last one leaves.
        if not self._queue.consumer_count and not self._queue.deleted:
            self._rule_services.remove(self._queue.name)
