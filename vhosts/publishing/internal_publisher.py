"""Messages that the broker itself publishes: through an exchange, to queues of the vhost, without a channel;
and what it tells of itself to those who bind to its own exchanges.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping

from routelog.log_backend import DELIVERY_MODE, FIRST_FLAG, HEADERS, TIMESTAMP, JournalFailed, Lane
from routelog.vhosts.arguments.argument_table import encode_arguments
from routelog.vhosts.publishing.internal_publish import (
    InternalPublish,
    OutgoingMessage,
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

    Attributes:
        keeps_refused: what is being published stays in its old place if a full queue refuses it.
    """

    def __init__(self, ways: PublishRoutes) -> None:
        self._ways = ways
        self._under_way: deque[tuple[InternalPublish, Done]] = deque()
        self._is_busy = False
        self.keeps_refused = False

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
        *,
        keeps_refused: bool = False,
    ) -> None:
        """Publish messages in as many turns as it takes, behind those that are under way.

        Args:
            exchange, attributes, origin: see `publish`.
            settle, keeps_refused: see `InternalPublish`.
            done: called when each has come to all of its queues, in this turn if it can be.
        """
        posting = InternalPublish(
            self._ways, exchange, messages, attributes, origin, settle, keeps_refused=keeps_refused
        )
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
        self.keeps_refused = posting.keeps_refused
        try:
            if not posting.go_on(False):
                return
            posted = posting.posted
        except JournalFailed:
            pass  # the journal said so in the log
        except Exception as error:  # behind its last message: what waits behind it goes on
            log.error("an error of the broker, behind what it published", exc_info=error)
            posted = posting.posted
        finally:
            self.keeps_refused = False
        self._under_way.popleft()
        try:
            done(posted)
        except Exception as error:  # a fault of ours: what is behind goes on
            log.error("an error of the broker, behind what it published", exc_info=error)


TRACE_EXCHANGE = "amq.rabbitmq.trace"
EVENT_EXCHANGE = "amq.rabbitmq.event"
LOG_EXCHANGE = "amq.rabbitmq.log"

_CONTENT_TYPE = FIRST_FLAG
KEY_BYTES_MAX = 255  # AMQP 0-9-1, 4.2.5.3
_PERSISTENT = b"\x02"


def tell(
    post: InternalPublisher,
    exchange: str,
    key: str,
    headers: Mapping[str, object],
    body: bytes = b"",
    *,
    content_type: str = "",
    timestamp: int | None = None,
) -> None:
    """Publish to an exchange of the broker's own; what no queue takes is gone.

    Args:
        timestamp: seconds since 1970.
    """
    flags = HEADERS
    table = encode_arguments(headers)
    parts = [len(table).to_bytes(4, "big") + table]
    if content_type:
        flags |= _CONTENT_TYPE
        parts.insert(0, bytes((len(content_type),)) + content_type.encode())
    if timestamp is not None:
        flags |= DELIVERY_MODE | TIMESTAMP
        parts.append(_PERSISTENT + timestamp.to_bytes(8, "big"))
    properties = flags.to_bytes(2, "big") + b"".join(parts)
    message = OutgoingMessage(properties, (_short(key),), body)
    try:
        post.publish(exchange, (message,), 0)
    except JournalFailed:
        return  # the journal said so in the log


def _short(key: str) -> bytes:
    # An exchange's name may fill a key by itself; half a character would be no text.
    return key.encode()[:KEY_BYTES_MAX].decode(errors="ignore").encode()
