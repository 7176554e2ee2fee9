"""The content of stored messages as operators see it."""

from base64 import b64encode

from routelog.amqp_front.server.message_holders import MessageHolders
from routelog.amqp_front.wire.errors import HardError
from routelog.amqp_front.wire.properties import Properties, visible_properties
from routelog.log_backend import Records
from routelog.vhosts import (
    BrowsedMessage,
    Delivery,
    FoundMessage,
    MessageState,
    Queue,
    TakenMessage,
    plain_arguments,
)

PROPERTIES = {"content_type", "content_encoding", "headers", "delivery_mode", "priority", "type"}
PROPERTIES |= {"correlation_id", "reply_to", "expiration", "message_id", "timestamp", "user_id"}
PROPERTIES |= {"app_id", "cluster_id"}
_NUMBERS = {"delivery_mode", "priority", "timestamp"}


def taken_message(queue: Queue, delivery: Delivery) -> TakenMessage:
    """A message that was handed out."""
    records, index = delivery.records, delivery.index
    return TakenMessage(
        records.exchange.decode(errors="replace"),
        records.routing_key(index).decode(errors="replace"),
        delivery.redelivered,
        _plain_properties(Properties(visible_properties(records, index))),
        _body(records, index),
        queue.ready,
    )


def _body(records: Records, index: int) -> memoryview:
    at, offsets = records.bodies_at, records.offset_columns()
    return memoryview(records.payload)[at + offsets[index] : at + offsets[index + 1]]


def _plain_properties(properties: Properties) -> dict[str, object]:
    plain: dict[str, object] = {}
    for name in sorted(PROPERTIES):
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


def browsed_message(queue: Queue, found: FoundMessage, holders: MessageHolders) -> BrowsedMessage:
    """A message that was found, and who has it."""
    records, index, partition = found.records, found.index, queue.partitions[found.partition]
    is_unacked = found.state is MessageState.UNACKED
    is_settled = found.state is MessageState.SETTLED
    return BrowsedMessage(
        found.partition,
        found.offset,
        str(found.state),
        records.time,
        records.exchange.decode(errors="replace"),
        records.routing_key(index).decode(errors="replace"),
        0 if is_settled else partition.delivery_count(found.offset),
        holders.of(found.partition, found.offset) if is_unacked else None,
        _plain_properties(Properties(visible_properties(records, index))),
        _body(records, index),
    )
