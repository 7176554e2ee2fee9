"""Detection of clients that do not read: heartbeats show that a client is alive, not that it reads.

Any bytes that the client's kernel acknowledged count as progress. TCP_USER_TIMEOUT does not help on all
kernels: before Linux 5.11, a client with a full window that answers probes never timed out.
"""

import asyncio
import logging
import socket
import struct
from collections.abc import Iterator

from routelog.broker.sockets.accepted_sockets import AcceptedSocket, AcceptedSockets
from routelog.log_backend import Lane, Scheduler

log = logging.getLogger(__name__)

LOOKS = 4  # checks in the allowed time: a client is dropped after at most 5/4 of it

# struct tcp_info of Linux 4.6, linux/tcp.h: segments unacknowledged, bytes acknowledged, bytes not sent yet.
_UNACKED, _TAKEN, _UNSENT = struct.Struct("=24xI"), struct.Struct("=120xQ"), struct.Struct("=144xI")
_TCP_INFO_BYTES = 148
_NETWORK = (socket.AF_INET, socket.AF_INET6)


class StalledSockets:
    """Checks the sockets of a protocol, and drops those without progress.

    Checks in a row count, not time: a suspended machine must not drop its clients.

    Args:
        seconds: the allowed time without progress, while bytes are unsent.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        scheduler: Scheduler,
        sockets: AcceptedSockets,
        seconds: float,
    ) -> None:
        self._loop = loop
        self._scheduler = scheduler
        self._sockets = sockets
        self._seconds = seconds
        self._round: asyncio.Future[None] | None = None  # of checks
        self._is_stopped = False
        self._timer = loop.call_later(seconds / LOOKS, self._start_round)

    def stop(self) -> None:
        """End the checks."""
        self._timer.cancel()
        self._is_stopped = True

    def _start_round(self) -> None:
        self._timer = self._loop.call_later(self._seconds / LOOKS, self._start_round)
        if self._round is None or self._round.done():
            self._round = self._scheduler.run(self._checks(), Lane.UPKEEP)

    def _checks(self) -> Iterator[None]:
        for accepted in self._sockets.all():
            if self._is_stopped:
                return
            if is_stalled(accepted):
                log.warning(
                    "%s: the client took nothing of what is sent for %g s; dropping it",
                    _name(accepted),
                    self._seconds,
                )
                accepted.drop()
            if self._scheduler.is_over():
                yield


def is_stalled(accepted: AcceptedSocket) -> bool:
    """Check a socket; returns whether it made no progress in LOOKS checks after the first."""
    handle = accepted.handle
    # A Unix socket does not count acknowledged bytes, and its client is on this machine.
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
    """Whether the kernel has unacknowledged bytes, and how many bytes were acknowledged so far.

    The process itself buffers bytes for a socket only while the kernel's buffer is full.
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
