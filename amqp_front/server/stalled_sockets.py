"""Clients that take nothing of what is sent to them: their heartbeats say that they live, not that they read.

What the other end has acknowledged is progress, however slow: as its window opens by a sixteenth of its buffer
at least, it may look slower than it is. The system's own limit, TCP_USER_TIMEOUT, is none
on all kernels: before Linux 5.11 a client whose window is full answered its probes for ever.
"""

import asyncio
import logging
import socket
import struct
from collections import deque

from routelog.amqp_front.node.accepted_sockets import AcceptedSocket, AcceptedSockets

log = logging.getLogger(__name__)

LOOKS = 4  # in the time that is allowed: a client is dropped within a quarter more than it
LOOKS_TURN_MAX = 128  # in a turn of the loop, 2 us each

# struct tcp_info of Linux 4.6, linux/tcp.h: segments unacknowledged, bytes acknowledged, bytes not sent yet.
_UNACKED, _TAKEN, _UNSENT = struct.Struct("=24xI"), struct.Struct("=120xQ"), struct.Struct("=144xI")
_TCP_INFO_BYTES = 148
_NETWORK = (socket.AF_INET, socket.AF_INET6)


class StalledSockets:
    """Looks at the sockets of a protocol, and drops those that have taken nothing for so long.

    What counts are looks in a row and not time: when the machine was suspended, nobody had any.

    Args:
        seconds: without a byte taken while some are unsent.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, sockets: AcceptedSockets, seconds: float
    ) -> None:
        self._loop = loop
        self._sockets = sockets
        self._seconds = seconds
        self._due_sockets: deque[AcceptedSocket] = deque()
        self._timer = loop.call_later(seconds / LOOKS, self._look)

    def stop(self) -> None:
        """Look no more."""
        self._timer.cancel()
        self._due_sockets.clear()

    def _look(self) -> None:
        self._timer = self._loop.call_later(self._seconds / LOOKS, self._look)
        if not self._due_sockets:
            self._due_sockets.extend(self._sockets.all())
            self._go_on()

    def _go_on(self) -> None:
        for _ in range(min(len(self._due_sockets), LOOKS_TURN_MAX)):
            accepted = self._due_sockets.popleft()
            if is_stalled(accepted):
                log.warning(
                    "%s: the client took nothing of what is sent for %g s; dropping it",
                    _name(accepted),
                    self._seconds,
                )
                accepted.drop()
        if self._due_sockets:
            self._loop.call_soon(self._go_on)


def is_stalled(accepted: AcceptedSocket) -> bool:
    """Look at a socket; returns whether it has been unmoved for LOOKS looks behind the first."""
    handle = accepted.handle
    # A Unix socket does not count what was taken, and its client is a process of this machine.
    if handle.fileno() < 0 or handle.family not in _NETWORK:
        return False
    has_unsent, taken = progress(handle)
    if not has_unsent or taken != accepted.taken:
        accepted.taken = taken
        accepted.idle_looks = 0
        return False
    accepted.idle_looks += 1
    return accepted.idle_looks >= LOOKS


def progress(handle: socket.socket) -> tuple[bool, int]:
    """Whether the system has something that is not acknowledged, and the bytes that ever were.

    What our own process keeps for a socket is there only while the system's buffer is full.
    """
    info = handle.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
    unsent = _UNACKED.unpack_from(info)[0] or _UNSENT.unpack_from(info)[0]
    return bool(unsent), _TAKEN.unpack_from(info)[0]


def _name(accepted: AcceptedSocket) -> str:
    try:
        address = accepted.handle.getpeername()
    except OSError:
        return accepted.source or "local"
    return f"{address[0]}:{address[1]}" if isinstance(address, tuple) else "local"
