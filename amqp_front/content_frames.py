"""Method, header and body frames of one message: for basic.get-ok and basic.return."""

import struct
from typing import Any

from amqp_front.methods import encode_method


def content_frames(
    channel: int,
    body_frame_max: int,
    properties: bytes,
    body: bytes,
    method: type[Any],
    **arguments: Any,
) -> bytes:
    """A method with content.

    Args:
        body_frame_max: largest body payload of a frame: frame-max - 8.
        properties: property list as on the wire.
    """
    header = struct.pack(">HHQ", 60, 0, len(body)) + properties
    frames = [
        encode_method(channel, method, **arguments),
        struct.pack(">BHI", 2, channel, len(header)) + header + b"\xce",
    ]
    for at in range(0, len(body), body_frame_max):
        piece = body[at : at + body_frame_max]
        frames.append(struct.pack(">BHI", 3, channel, len(piece)) + piece + b"\xce")
    return b"".join(frames)
