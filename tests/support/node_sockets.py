"""The sockets of a port of nodes, with limits that no honest test reaches."""

from __future__ import annotations

import time

from routelog.broker.sockets.accepted_sockets import AcceptedSockets, SocketLimits


def node_sockets(sockets_max: int = 64, not_introduced_max: int = 32) -> AcceptedSockets:
    """Those of one port."""
    return AcceptedSockets("nodes", SocketLimits(sockets_max, not_introduced_max), time.monotonic)
