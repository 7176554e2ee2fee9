"""A transaction of a client, at the front's end: its parts are gathered, in turns, and sent as one."""

from collections.abc import Callable, Iterator, Sequence

from routelog.log_backend import Octets, Progress, Reason, Records
from routelog.vhosts.messages.delivery import DeliverySource
from routelog.vhosts.messages.recipient import Recipient
from routelog.vhosts.queues.queue import Queue
from routelog.vhosts.sessions.front_session import FrontSession
from routelog.vhosts.sessions.remote_partition import RemotePartition
from routelog.vhosts.sessions.remote_queue import RemoteQueue
from routelog.vhosts.sessions.session_message import PART, Kind, SessionMessage, batch_pieces


class FrontTransaction:
    """See `RemoteTransaction`; it belongs to the session that is open when it begins, or to the next one."""

    def __init__(self, session: FrontSession) -> None:
        self._session = session
        self._pieces: list[Octets] = []
        self._bytes = 0
        self._published: dict[tuple[RemoteQueue, bytes], int] = {}  # messages, by exchange

    @property
    def progress(self) -> Progress:
        """See `RemoteTransaction`."""
        return self._session.progress

    def publishes_to(self, recipient: Recipient) -> bool:
        """See `RemoteTransaction`; a queue of this node: it is to lead, and the session will not open."""
        return isinstance(recipient, RemoteQueue | Queue)

    def publish(self, queue: RemoteQueue, records: Records) -> None:
        """See `RemoteTransaction`."""
        if queue.deleted:
            return
        subject = self._session.subject_of(queue)
        self._pieces += batch_pieces(SessionMessage(Kind.PUBLISH, PART, 0, subject), records)
        self._bytes += records.batch_bytes
        key = queue, records.exchange
        self._published[key] = self._published.get(key, 0) + records.count

    def settles(self, source: DeliverySource) -> bool:
        """See `RemoteTransaction`."""
        return isinstance(source, RemotePartition) and source.session is self._session

    def settle(
        self, source: DeliverySource, ranges: Sequence[tuple[int, int]], reason: Reason
    ) -> Iterator[None]:
        """See `RemoteTransaction`."""
        if isinstance(source, RemotePartition):
            for pieces in source.settlements(ranges, reason, PART):
                self._pieces += pieces
                yield

    def send(self, committed: Callable[[], None], failed: Callable[[Exception], None]) -> None:
        """See `RemoteTransaction`."""

        def answered(_: object) -> None:
            for (queue, exchange), count in self._published.items():
                queue.counters.published_to(exchange, count)
            committed()

        if self._pieces:
            pieces, self._pieces = self._pieces, []
            self._session.commit(pieces, self._bytes, answered, failed)
        else:
            committed()
