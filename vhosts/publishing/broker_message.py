"""Messages that the broker makes itself: what it tells of itself to those who bind to its own exchanges."""

from collections.abc import Mapping

from routelog.log_backend import DELIVERY_MODE, FIRST_FLAG, HEADERS, TIMESTAMP, JournalFailed
from routelog.vhosts.arguments.argument_table import encode_arguments
from routelog.vhosts.publishing.internal_publish import OutgoingMessage
from routelog.vhosts.publishing.internal_publisher import InternalPublisher

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
