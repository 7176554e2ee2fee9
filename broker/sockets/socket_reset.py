"""A socket whose client is given up is reset: what the system still keeps for it goes at once.

Otherwise the system goes on sending for minutes, from megabytes of its memory, and a client that wakes up reads
deliveries that others have by then.
"""

import asyncio
import socket
import struct

_AT_ONCE = struct.pack("ii", 1, 0)  # struct linger: on, and no second


def reset(transport: asyncio.Transport) -> None:
    """Close a socket with a reset, without what is unsent."""
    handle = transport.get_extra_info("socket")
    is_open = handle is not None and handle.fileno() >= 0
    if is_open and handle.family in (socket.AF_INET, socket.AF_INET6):
        handle.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
    transport.abort()
