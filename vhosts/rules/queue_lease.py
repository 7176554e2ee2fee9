"""The lease of a queue with `x-expires`: when nobody uses it for so long, it is deleted."""

from routelog.vhosts.rules.ruled_queue import RuledQueue
from routelog.vhosts.rules.surroundings import Surroundings


class QueueLease:
    """Begins anew with every declaration, `basic.get` and departure of a consumer, and with a start."""

    def __init__(self, queue: RuledQueue, surroundings: Surroundings, milliseconds: int) -> None:
        self._queue = queue
        self._surroundings = surroundings
        self._seconds = milliseconds / 1_000
        self._timer = surroundings.call_later(self._seconds, self._over)

    def renew(self) -> None:
        """Somebody used the queue."""
        self._timer.cancel()
        if not self._queue.deleted:
            self._timer = self._surroundings.call_later(self._seconds, self._over)

    def stop(self) -> None:
        """There is no lease any more."""
        self._timer.cancel()

    def _over(self) -> None:
        # With consumers it begins when the last one goes.
        if not self._queue.consumer_count and not self._queue.deleted:
            self._surroundings.remove(self._queue.name)
