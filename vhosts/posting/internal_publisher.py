"""Messages that the broker itself publishes: through an exchange, to queues of the vhost, without a channel."""

import logging
from collections import deque
from collections.abc import Callable

from routelog.log_backend import JournalFailed
from routelog.vhosts.posting.internal_publish import (
    InternalPublish,
    OutgoingMessages,
    Posted,
    PublishRoutes,
)
from routelog.vhosts.timer import CallSoon

TURN_SECONDS = 0.001

log = logging.getLogger(__name__)

# What became of messages; None: the disk failed before, and some may be in their queues, in memory.
Done = Callable[[Posted | None], None]


class InternalPublisher:
    """Publishes for the broker.

    What goes to very many queues, or far, takes several turns of the event loop. What comes meanwhile waits
    behind it, so that all of it shares a turn's time: who publishes much waits for `done` before it goes on.

    Args:
        call_soon: runs a function after this turn of the event loop.
    """

    def __init__(self, ways: PublishRoutes, call_soon: CallSoon) -> None:
        self._ways = ways
        self._call_soon = call_soon
        self._under_way: deque[tuple[InternalPublish, Done]] = deque()
        self._scheduled = False
        self._is_running = False

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
    ) -> None:
        """Publish messages in as many turns as it takes, behind those that are under way.

        Args:
            exchange, attributes, origin: see `publish`.
            done: called when each has come to all of its queues, in this turn if it can be.
        """
        posting = InternalPublish(self._ways, exchange, messages, attributes, origin)
        self._under_way.append((posting, done))
        if not self._scheduled and not self._is_running:
            self._run(False)

    def finish(self) -> None:
        """Publish what is left in this turn: the broker stops."""
        self._run(True)

    def _turn(self) -> None:
        self._scheduled = False
        self._run(False)

    def _run(self, whole: bool) -> None:
        self._is_running = True
        until = self._ways.clock.monotonic() + TURN_SECONDS
        try:
            while self._under_way:
                if not self._go_on(whole):
                    break
                if not whole and self._ways.clock.monotonic() >= until:
                    break
        finally:
            self._is_running = False
            if self._under_way and not self._scheduled:
                self._scheduled = True
                self._call_soon(self._turn)

    def _go_on(self, whole: bool) -> bool:
        posting, done = self._under_way[0]
        posted: Posted | None = None
        try:
            if not posting.go_on(whole):
                return False
            posted = posting.posted
        except JournalFailed:
            pass  # the journal said so in the log
        self._under_way.popleft()
        try:
            done(posted)
        except Exception as error:  # a fault of ours: what is behind goes on
            log.error("an error of the broker, behind what it published", exc_info=error)
        return True
