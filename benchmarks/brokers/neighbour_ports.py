"""Ports of nodes that are started on this machine, where each needs several side by side."""

import os
import socket


def neighbour_ports(count: int, size: int) -> list[int]:
    """First ports of groups that are free.

    The system gives none of these to who connects, so a node that was killed finds them free again.

    Args:
        count: of groups.
        size: of each.
    """
    found: list[int] = []
    port = 20_000 + os.getpid() * 30 % 12_000
    while len(found) < count:
        port += size
        if all(map(_is_free, range(port, port + size))):
            found.append(port)
    return found


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True
