"""A queue that a front has named in its session."""

from routelog.exchanges import QueueNotFound
from routelog.vhosts.errors import VhostNotFound
from routelog.vhosts.queues.queue import Queue
from routelog.vhosts.sessions.unsettled import Unsettled
from routelog.vhosts.vhost.vhost import VirtualHost
from routelog.vhosts.vhost.vhost_directory import VhostDirectory


class BoundQueue:
    """A queue that a front has named: by vhost, name and number, so that one declared later is another one.

    Attributes:
        queue: it; None: there is none.
        unsettled: what its gets have handed out.
    """

    __slots__ = ("_name", "_vhost_name", "queue", "unsettled", "vhost")

    def __init__(
        self,
        vhost_name: str,
        name: str,
        vhost: VirtualHost | None = None,
        queue: Queue | None = None,
    ) -> None:
        self._vhost_name = vhost_name
        self._name = name
        self.vhost = vhost
        self.queue = queue
        self.unsettled = Unsettled()

    @property
    def is_open(self) -> bool:
        """Whether it takes messages."""
        return self.queue is not None and not self.queue.deleted

    def opened(self) -> tuple[VirtualHost, Queue]:
        """Its vhost, and the queue.

        Raises:
            QueueNotFound: it is deleted.
        """
        if self.vhost is None or self.queue is None or self.queue.deleted:
            raise QueueNotFound(self._name, self._vhost_name)
        return self.vhost, self.queue

    # -- as a holder of deliveries, beside consumers

    is_gone = False
    is_partitioned = False

    def let_go(self, count: int) -> None:
        """See `HostedConsumer`: nobody waits for room."""


def found_queue(vhosts: VhostDirectory, vhost_name: str, name: str, number: int) -> BoundQueue:
    """The queue of a name whose first partition has a number, as far as there is one."""
    try:
        vhost = vhosts.get(vhost_name)
    except VhostNotFound:
        return BoundQueue(vhost_name, name)
    queue = vhost.queues.get(name)
    if queue is not None and queue.number != number:
        queue = None
    return BoundQueue(vhost_name, name, vhost, queue)


FORGOTTEN = BoundQueue("", "")  # a queue that is deleted, and whose name is not known any more
