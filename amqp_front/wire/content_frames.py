"""The frames of one message with content, as parts to be sent in order.

A large body is not copied: its parts are views of it, between the ends and the headers of its frames.
"""

import struct
from collections.abc import Iterable
from typing import Any

from routelog.amqp_front.wire.methods import encode_method
from routelog.log_backend import Octets, Records

LARGE_BODY_BYTES = 65_536  # from here on, copying costs more than sending several parts

_FRAME = struct.Struct(">BHI")
_DELIVER = struct.Struct(">HHB")
_END = b"\xce"


def content_frames(
    channel: int,
    body_frame_max: int,
    properties: bytes,
    body: Octets,
    method: type[Any],
    **arguments: Any,
) -> list[Octets]:
    """A method with content; of a small body, a single part.

    Args:
        body_frame_max: largest body payload of a frame: frame-max - 8.
        properties: property list as on the wire.
        body: not changed as long as the parts are in use.
    """
    frame = encode_method(channel, method, **arguments)
    return _content_parts(channel, body_frame_max, frame, properties, body)


def deliveries_in_parts(
    records: Records,
    first: int,
    count: int,
    channel: int,
    consumer_tag: bytes,
    delivery_tag: int,
    redelivered: bool,
    body_frame_max: int,
    property_lists: Iterable[bytes],
) -> list[Octets]:
    """As `encode_deliveries`, in parts.

    Args:
        property_lists: sent in place of the published ones.
    """
    parts: list[Octets] = []
    tag = _DELIVER.pack(60, 60, len(consumer_tag)) + consumer_tag
    exchange = bytes((redelivered, len(records.exchange))) + records.exchange
    for index, properties in enumerate(property_lists, first):
        key = records.routing_key(index)
        method = tag + struct.pack(">Q", delivery_tag + index - first) + exchange
        method += bytes((len(key),)) + key
        frame = _FRAME.pack(1, channel, len(method)) + method + _END
        body = body_view(records, index)
        parts += _content_parts(channel, body_frame_max, frame, properties, body)
    return parts


def is_large(records: Records) -> bool:
    """Whether the bodies of a batch are so large that they are not copied."""
    return records.bodies_bytes >= LARGE_BODY_BYTES * records.count


def body_view(records: Records, index: int) -> memoryview:
    """A view of the body of one record."""
    offsets = records.offset_columns()
    at = records.bodies_at
    return memoryview(records.payload)[at + offsets[index] : at + offsets[index + 1]]


def _content_parts(
    channel: int, body_frame_max: int, method_frame: bytes, properties: bytes, body: Octets
) -> list[Octets]:
    header = struct.pack(">HHQ", 60, 0, len(body)) + properties
    between = method_frame + _FRAME.pack(2, channel, len(header)) + header + _END
    parts: list[Octets] = []
    for at in range(0, len(body), body_frame_max):
        piece = memoryview(body)[at : at + body_frame_max]
        parts += between + _FRAME.pack(3, channel, len(piece)), piece
        between = _END
    parts.append(between)
    return parts if len(body) >= LARGE_BODY_BYTES else [b"".join(parts)]
