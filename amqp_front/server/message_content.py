"""The content of stored messages as operators see it."""

from base64 import b64encode

from routelog.amqp_front.consuming.channel_consumer import COUNT_HEADER, delivery_counts
from routelog.amqp_front.server.message_holders import MessageHolders
from routelog.amqp_front.wire.content_frames import body_view
from routelog.amqp_front.wire.errors import HardError
from routelog.amqp_front.wire.properties import Properties, visible_properties
from routelog.log_backend import PROPERTY_NAMES
from routelog.vhosts import (
    BrowsedMessage,
    Delivery,
    FoundMessage,
    MessageState,
    QueueHandle,
    TakenMessage,
    plain_arguments,
)

_NUMBERS = {"delivery_mode", "priority", "timestamp"}


def taken_message(queue: QueueHandle, delivery: Delivery) -> TakenMessage:
    """A message that was handed out."""
    records, index = delivery.records, delivery.index
    properties = visible_properties(records, index)
    if queue.counts_deliveries:  # 0 as well, as in the answer to a basic.get
        (count,) = delivery_counts(delivery)
        properties = Properties(properties).with_integers({COUNT_HEADER: count})
    return TakenMessage(
        records.exchange.decode(errors="replace"),
        records.routing_key(index).decode(errors="replace"),
        delivery.redelivered,
        _plain(properties),
        body_view(records, index),
        queue.ready,
    )


def _plain(property_list: bytes) -> dict[str, object]:
    properties = Properties(property_list)
    plain: dict[str, object] = {}
    for name in sorted(PROPERTY_NAMES):
        value = properties.value(name)
        if value is None:
            continue
        if name == "headers":
            plain[name] = _plain_headers(properties, value)
        elif name in _NUMBERS:
            plain[name] = int.from_bytes(value, "big")
        else:
            plain[name] = value.decode(errors="replace")
    return plain


def _plain_headers(properties: Properties, table: bytes) -> dict[str, object]:
    try:
        return plain_arguments(properties.headers())
    except HardError:
        # Names that are no UTF-8, or very many fields: nobody had to read them so far.
        return {"undecoded": b64encode(table).decode()}


def browsed_message(found: FoundMessage, holders: MessageHolders) -> BrowsedMessage:
    """A message that was found, and who has it."""
    records, index = found.records, found.index
    is_unacked = found.state is MessageState.UNACKED
    return BrowsedMessage(
        found.partition,
        found.offset,
        str(found.state),
        records.time,
        records.exchange.decode(errors="replace"),
        records.routing_key(index).decode(errors="replace"),
        found.delivery_count,
        holders.of(found.partition, found.offset) if is_unacked else None,
        _plain(visible_properties(records, index)),
        body_view(records, index),
    )
