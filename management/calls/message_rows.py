"""Messages as RabbitMQ shows them, written a piece at a time: their bodies may be large."""

import codecs
from base64 import b64encode
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from typing import Any, Literal, cast

import msgspec

from routelog.log_backend import Lane, pause
from routelog.vhosts import BrowsedMessage, TakenMessage

# Of a body, written in one turn of the loop: 0.1 to 0.3 ms; a multiple of 3 for base64.
PIECE_BYTES = 48 * 1024


Encoding = Literal["string", "base64"]
State = Literal["ready", "unacked", "settled"]


class TakenMessageRow(msgspec.Struct):
    """A message that was taken; `message_count` are left."""

    payload_bytes: int
    redelivered: bool
    exchange: str
    routing_key: str
    message_count: int
    properties: Mapping[str, Any]
    payload_encoding: Encoding
    payload: str


class Holder(msgspec.Struct):
    """Who has an unacknowledged message, and for how long at least."""

    consumer_tag: str
    connection: str
    channel: int
    seconds: float


class BrowsedMessageRow(msgspec.Struct):
    """A message as it lies in its queue; `received_at` in milliseconds since 1970."""

    partition: int
    offset: int
    state: State
    received_at: int
    exchange: str
    routing_key: str
    delivery_count: int
    consumer: Holder | None
    properties: Mapping[str, Any]
    payload_bytes: int
    payload_encoding: Encoding
    payload: str


def taken_row(message: TakenMessage) -> TakenMessageRow:
    """A message that was taken, without its payload; keys and order are RabbitMQ's."""
    return TakenMessageRow(
        payload_bytes=len(message.body),
        redelivered=message.redelivered,
        exchange=message.exchange,
        routing_key=message.routing_key,
        message_count=message.left,
        properties=message.properties,
        payload_encoding="base64",
        payload="",
    )


def browsed_row(message: BrowsedMessage) -> BrowsedMessageRow:
    """A message that was looked at, without its payload."""
    holder = message.holder
    return BrowsedMessageRow(
        partition=message.partition,
        offset=message.offset,
        state=cast(State, message.state),
        received_at=message.received // 1_000,
        exchange=message.exchange,
        routing_key=message.routing_key,
        delivery_count=message.delivery_count,
        consumer=None
        if holder is None
        else Holder(holder.tag, holder.connection, holder.channel, round(holder.seconds, 1)),
        properties=message.properties,
        payload_bytes=len(message.body),
        payload_encoding="base64",
        payload="",
    )


async def message_rows(
    messages: Iterable[tuple[TakenMessageRow | BrowsedMessageRow, memoryview]],
    *,
    as_text: bool,
    bytes_max: int | None,
) -> AsyncIterator[bytes]:
    """The pieces of a JSON array.

    Args:
        messages: rows without their payload, and bodies.
        as_text: a body that is UTF-8 is shown as it is; all others, and otherwise all, in base64.
        bytes_max: of a body, that are shown; None: all.
    """
    opening = b"["
    for row, whole in messages:
        body = whole[:bytes_max]
        is_text = as_text and await _is_text(body)
        row.payload_encoding = "string" if is_text else "base64"
        piece = opening + msgspec.json.encode(row)[:-2]  # the payload comes last
        for shown in _text(body) if is_text else _base64(body):
            yield piece + shown
            piece = b""
            await pause(Lane.OPERATORS)
        yield piece + b'"}'
        opening = b","
    yield b"]" if opening == b"," else b"[]"


async def page_of_rows(
    rows: AsyncIterator[bytes], more: Mapping[str, object]
) -> AsyncIterator[bytes]:
    """The pieces of a JSON object: the array as `items`, and more."""
    yield b'{"items":'
    async for piece in rows:
        yield piece
    yield b"," + msgspec.json.encode(more)[1:]


async def _is_text(body: memoryview) -> bool:
    try:
        for _ in _decoded(body):
            await pause(Lane.OPERATORS)
    except UnicodeDecodeError:
        return False
    return True


def _decoded(body: memoryview) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")()
    for at in range(0, len(body), PIECE_BYTES):
        yield decoder.decode(body[at : at + PIECE_BYTES], at + PIECE_BYTES >= len(body))


def _text(body: memoryview) -> Iterator[bytes]:
    return (msgspec.json.encode(part)[1:-1] for part in _decoded(body))


def _base64(body: memoryview) -> Iterator[bytes]:
    return (b64encode(body[at : at + PIECE_BYTES]) for at in range(0, len(body), PIECE_BYTES))
