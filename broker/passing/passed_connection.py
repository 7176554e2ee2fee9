"""A client of HTTP that is passed on: two sockets, and what one receives goes to the other.

    client ── socket ── ClientEnd ◄──► LeaderEnd ── socket ── leader
                        nothing is read here while more than UNSENT_BYTES_HIGH wait there, in both directions

The leader reads a PROXY header first: who the client is. It counts the client's limits and its time to log in.
"""

import asyncio
import socket
from collections.abc import Callable, Mapping
from typing import cast

import msgspec

from routelog.broker.sockets.accepted_sockets import AcceptedSocket
from routelog.broker.sockets.client_socket import reset
from routelog.broker.sockets.proxy_header import PassedClient, passed_header
from routelog.mirror_cluster import LeadingNode

UNSENT_BYTES_HIGH = 262_144  # and at most one read more, some 256 KiB
# For the client to read what is unsent and to end its side: as long as the leader gives it.
END_SECONDS_MAX = 30.0
GOODBYE_SECONDS_MAX = 5.0  # for the client to take its refusal
REQUEST_BYTES_MAX = 65_536  # of the head of a request that is refused
RETRY_SECONDS = 1  # for a client that was refused

# How requests begin that ask whether this node is well; what asks sends them whole.
_HEALTH_CHECKS = b"GET /api/health", b"HEAD /api/health"
NO_LEADER = {"error": "no_leader"}
UNHEALTHY = {"status": "failed"}


class HttpRefusal:
    """503, with the reason as the HTTP API gives it.

    Attributes:
        is_over: there is nothing to say any more: the connection is to be closed.

    Args:
        kind: of the refusal.
    """

    def __init__(self, reason: str, kind: Mapping[str, str] = NO_LEADER) -> None:
        self.is_over = False
        self._answer = {**kind, "reason": reason}
        self._received = b""

    def take(self, data: bytes) -> bytes:
        """Take what came from the client; returns what it is to be sent."""
        self._received += data
        if b"\r\n\r\n" not in self._received:
            self.is_over = len(self._received) > REQUEST_BYTES_MAX
            return b""
        self.is_over = True
        body = msgspec.json.encode(self._answer)
        head = (
            "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nRetry-After: {RETRY_SECONDS}\r\n"
            "Cache-Control: no-store\r\nConnection: close\r\n\r\n"
        )
        return head.encode() + (b"" if self._received.startswith(b"HEAD ") else body)


class _End(asyncio.Protocol):
    """One of the two sockets.

    Attributes:
        has_ended: its other end sends nothing more.
    """

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.has_ended = False
        self._other: _End | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is there."""
        # Transports of uvloop are such in all but their base class
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=UNSENT_BYTES_HIGH)

    def pause_writing(self) -> None:
        """The transport has no room."""
        if self._other is not None:
            self._other.set_reading(False)

    def resume_writing(self) -> None:
        """The transport has room again."""
        if self._other is not None:
            self._other.set_reading(True)

    def send(self, data: bytes) -> None:
        """Send, unless the socket is closed."""
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write(data)

    def set_reading(self, reading: bool) -> None:
        """Read, or leave what comes to the system."""
        if self.transport is None or self.transport.is_closing() or self.has_ended:
            return
        if reading:
            self.transport.resume_reading()
        else:
            self.transport.pause_reading()

    def end_side(self) -> bool:
        """Say that nothing more is sent; returns whether something may still come: not with TLS."""
        transport = self.transport
        if transport is None or transport.is_closing():
            return False
        if not transport.can_write_eof():
            transport.close()
            return False
        transport.write_eof()
        return True

    def close(self, error: Exception | None = None) -> None:
        """Send what is unsent and close; or drop everything, as the other socket broke."""
        if self.transport is not None:
            if error is None:
                self.transport.close()
            else:
                reset(self.transport)


class LeaderEnd(_End):
    """The socket to the leader."""

    def __init__(self, client: "ClientEnd") -> None:
        super().__init__()
        self._other: ClientEnd = client

    def data_received(self, data: bytes) -> None:
        """Bytes have come."""
        self._other.send(data)

    def eof_received(self) -> bool:
        """The other end sends nothing more."""
        self.has_ended = True
        stays = self._other.leader_ended()
        return stays and self.transport is not None and self.transport.can_write_eof()

    def connection_lost(self, error: Exception | None) -> None:
        """The connection is closed."""
        self._other.leave()


class ClientEnd(_End):
    """The socket of the client.

    Attributes:
        leader: whom it is passed to; None: to nobody yet.

    Args:
        begin: called when it is connected; has the leader's connection given to `reached`.
        ended: called when it is closed.
        trouble: see `Passing`.
    """

    def __init__(
        self,
        accepted: AcceptedSocket,
        begin: Callable[["ClientEnd"], None],
        ended: Callable[["ClientEnd"], None],
        trouble: Callable[[], str],
    ) -> None:
        super().__init__()
        self.leader: LeadingNode | None = None
        self._other: LeaderEnd | None = None
        self._accepted = accepted
        self._refusal: HttpRefusal | None = None
        self._begin = begin
        self._ended = ended
        self._trouble = trouble
        self._is_dropped = False  # before it was connected
        self._is_left = False  # by the leader: what comes is thrown away
        self._header = b""
        self._early = b""  # what came before there was a leader
        self._deadline: asyncio.TimerHandle | None = None

    # -- see `ServedSocket`

    def abort(self) -> None:
        """Drop the socket, at the latest when it is connected."""
        self._is_dropped = True
        if self.transport is not None:
            reset(self.transport)

    def never_connected(self) -> None:
        """The socket was closed before it was connected."""
        self._ended(self)

    # -- see `asyncio.Protocol`

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is there."""
        super().connection_made(transport)
        peer = transport.get_extra_info("peername")
        if self._is_dropped or not isinstance(peer, tuple):  # it is gone
            return self.abort()
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        is_tls = transport.get_extra_info("sslcontext") is not None
        self._header = passed_header(PassedClient(peer[0], peer[1], is_tls))
        self._begin(self)

    def data_received(self, data: bytes) -> None:
        """Bytes have come."""
        if self._refusal is not None:
            self._refuse(data)
        elif self._is_left:
            pass
        elif data.startswith(_HEALTH_CHECKS) and (reason := self._trouble()):
            self._begin_refusal(HttpRefusal(reason, UNHEALTHY), data)
        elif self._other is None:
            self._early += data  # one read at most, of some 256 KiB
            self.set_reading(False)
        else:
            self._other.send(data)

    def eof_received(self) -> bool:
        """The other end sends nothing more."""
        self.has_ended = True
        if self._is_left or self._other is None or self._other.has_ended:
            return False
        stays = self._other.end_side()
        return stays and self.transport is not None and self.transport.can_write_eof()

    def connection_lost(self, error: Exception | None) -> None:
        """The connection is closed."""
        self._accepted.closed()
        self._abort_after(None)
        self._ended(self)
        if self._other is not None:
            self._other.close(error)

    # -- the leader

    def reached(self, leader: LeadingNode, transport: asyncio.Transport, unread: bytes) -> None:
        """A connection with the leader is there: pass everything on. See `ClusterMember.connect`."""
        if self._is_left or self.transport is None or self.transport.is_closing():
            return transport.abort()
        self.leader = leader
        self._other = end = LeaderEnd(self)
        transport.set_protocol(end)
        end.connection_made(transport)
        end.send(self._header + self._early)
        self._early = b""
        transport.resume_reading()
        if unread:
            end.data_received(unread)
        self._accepted.authenticated()  # from here on the leader counts it among those without a login
        self.set_reading(True)

    def leader_ended(self) -> bool:
        """The leader sends nothing more; returns whether it may still be sent something."""
        if self._is_left or self.has_ended:
            self.close()
            return False
        self._abort_after(END_SECONDS_MAX)
        return self.end_side()

    def leave(self, reason: str = "") -> None:
        """Close it, as it cannot be passed on, or not any more.

        Args:
            reason: for a client that was not; it gets 503.
        """
        if self._is_left or self.transport is None or self.transport.is_closing():
            return
        if self._other is None and self._early:
            self.set_reading(True)
            return self._begin_refusal(HttpRefusal(reason), self._early)
        self._is_left = True
        if self._other is not None:
            self._other.close(ConnectionAbortedError())
        self._abort_after(END_SECONDS_MAX)
        self.close()

    def _begin_refusal(self, refusal: HttpRefusal, data: bytes) -> None:
        self._is_left, self._refusal = True, refusal
        if self._other is not None:
            self._other.close(ConnectionAbortedError())
        self._abort_after(GOODBYE_SECONDS_MAX)
        self._refuse(data)

    def _refuse(self, data: bytes) -> None:
        """Go on telling the client, which no leader has heard of, why; `data` is what it says."""
        assert self._refusal is not None
        if not self._refusal.is_over:
            self.send(self._refusal.take(data))
            if self._refusal.is_over or self.has_ended:
                self.end_side()

    def _abort_after(self, seconds: float | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if seconds is not None:
            self._deadline = asyncio.get_running_loop().call_later(seconds, self.abort)
