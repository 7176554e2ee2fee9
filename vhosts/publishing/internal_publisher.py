"""Messages that the broker itself publishes: through an exchange, to queues of the vhost, without a channel."""

import logging
from collections import deque
from collections.abc import Callable, Iterator

from routelog.log_backend import JournalFailed, Lane
from routelog.vhosts.publishing.internal_publish import (
    InternalPublish,
    OutgoingMessages,
    Posted,
    PublishRoutes,
    Settle,
)

log = logging.getLogger(__name__)

# What became of messages; None: the disk failed before, and some may be in their queues, in memory.
Done = Callable[[Posted | None], None]


class InternalPublisher:
    """Publishes for the broker.

    What goes to very many queues, or far, takes several turns of the event loop. What comes meanwhile waits
    behind it: who publishes much waits for `done` before it goes on.
    """

    def __init__(self, ways: PublishRoutes) -> None:
        self._ways = ways
        self._under_way: deque[tuple[InternalPublish, Done]] = deque()
        self._is_busy = False

    def publish(
        self,
        exchange: str,
        messages: OutgoingMessages,
        attributes: int,
        origin: bytes | None = None,
    ) -> Posted:
        """Publish a few messages to an exchange in this turn; one that is not there takes none.

        Args:
            attributes: of their batches, but KEY_COLUMN.
            origin: name of the exchange that they are said to come from; None: this one.

        Raises:
            JournalFailed: the disk failed before; some may be in their queues, in memory.
        """
        origin = exchange.encode() if origin is None else origin
        posting = InternalPublish(self._ways, exchange, messages, attributes, origin)
        posting.go_on(True)
        return posting.posted

    def begin(
        self,
        exchange: str,
        messages: OutgoingMessages,
        attributes: int,
        origin: bytes,
        done: Done,
        settle: Settle | None = None,
    ) -> None:
        """Publish messages in as many turns as it takes, behind those that are under way.

        Args:
            exchange, attributes, origin: see `publish`.
            settle: see `InternalPublish`.
            done: called when each has come to all of its queues, in this turn if it can be.
        """
        posting = InternalPublish(self._ways, exchange, messages, attributes, origin, settle)
        self._under_way.append((posting, done))
        if self._is_busy:
            return
        self._is_busy = True
        self._go_on()
        if self._under_way:
            self._ways.scheduler.run(self._steps(), Lane.JOBS)
        else:
            self._is_busy = False

    def _steps(self) -> Iterator[None]:
        while self._under_way:
            yield
            self._go_on()
        self._is_busy = False

    def _go_on(self) -> None:
        posting, done = self._under_way[0]
        posted: Posted | None = None
        try:
            if not posting.go_on(False):
                return
            posted = posting.posted
        except JournalFailed:
            pass  # the journal said so in the log
        self._under_way.popleft()
        try:
            done(posted)
        except Exception as error:  # a fault of ours: what is behind goes on
            log.error("an error of the broker, behind what it published", exc_info=error)
