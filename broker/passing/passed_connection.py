"""A client's connection that is passed on: two sockets, and what one receives goes to the other.

    client ── socket ── ClientEnd ◄──► LeaderEnd ── socket ── leader
                        nothing is read here while more than UNSENT_BYTES_HIGH wait there, in both directions

The leader reads a PROXY header first: who the client is. It counts the client's limits and its time to log in.
"""

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import cast

from routelog.broker.passing.passed_protocol import Farewell, PassedProtocol, Refusal
from routelog.broker.sockets.accepted_sockets import AcceptedSocket
from routelog.broker.sockets.client_socket import reset
from routelog.broker.sockets.proxy_header import Endpoint, PassedClient, passed_header
from routelog.mirror_cluster import LeadingNode

log = logging.getLogger(__name__)

UNSENT_BYTES_HIGH = 262_144  # and at most one read more, some 256 KiB
# For the client to read what is unsent and to end its side: as long as the leader gives it.
END_SECONDS_MAX = 30.0
GOODBYE_SECONDS_MAX = 5.0  # for the client to answer a goodbye
LOST = (
    "the connection with the leader is lost: if its process has ended, transient messages and "
    "queues that are not durable are gone; what was not confirmed may be lost; connect again"
)


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
    """The socket to the leader.

    Args:
        farewell: follows what it sends to the client; None: the protocol has none.
    """

    def __init__(self, client: "ClientEnd", farewell: Farewell | None) -> None:
        super().__init__()
        self._other: ClientEnd = client
        self._farewell = farewell

    def goodbye(self, reason: str) -> bytes:
        """What tells the client that this ends; empty where it cannot be told."""
        farewell = self._farewell
        return b"" if farewell is None or not farewell.can_close else farewell.goodbye(reason)

    def is_answer(self, data: bytes) -> bool:
        """Whether the client has answered the goodbye."""
        return self._farewell is not None and self._farewell.is_answer(data)

    def data_received(self, data: bytes) -> None:
        """Bytes have come."""
        if self._farewell is not None:
            self._farewell.follow(data)
        self._other.send(data)

    def eof_received(self) -> bool:
        """The other end sends nothing more."""
        self.has_ended = True
        stays = self._other.leader_ended()
        return stays and self.transport is not None and self.transport.can_write_eof()

    def connection_lost(self, error: Exception | None) -> None:
        """The connection is closed."""
        self._other.leader_lost()


class ClientEnd(_End):
    """The socket of the client.

    Attributes:
        leader: whom it is passed to; None: to nobody yet.

    Args:
        door: the name of the protocol that it is to speak.
        protocol: that protocol.
        proxied: the client, when the other end is a proxy that speaks for it.
        begin: called when it is connected; has the leader's connection given to `reached`.
        ended: called when it is closed.
    """

    def __init__(
        self,
        accepted: AcceptedSocket,
        door: str,
        protocol: PassedProtocol,
        proxied: Endpoint | None,
        begin: Callable[["ClientEnd"], None],
        ended: Callable[["ClientEnd"], None],
    ) -> None:
        super().__init__()
        self.leader: LeadingNode | None = None
        self._other: LeaderEnd | None = None
        self._accepted = accepted
        self._door = door
        self._proxied = proxied
        self._protocol = protocol
        self._refusal: Refusal | None = None
        self._begin = begin
        self._ended = ended
        self._is_dropped = False  # before it was connected
        self._is_told = False  # that it ends: what comes is thrown away
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
        handle = transport.get_extra_info("socket")
        if handle is not None and handle.family in (socket.AF_INET, socket.AF_INET6):
            handle.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        try:
            self._header = passed_header(self._client(transport))
        except ValueError as error:
            log.warning("a client is not passed on: %s", error)
            self._is_dropped = True
        if self._is_dropped:
            self.abort()
        else:
            self._begin(self)

    def data_received(self, data: bytes) -> None:
        """Bytes have come."""
        if self._refusal is not None:
            self._refuse(data)
        elif self._is_told:
            if self._other is not None and self._other.is_answer(data):
                self.close()
        elif self._other is None:
            self._early += data  # one read at most, of some 256 KiB
            self.set_reading(False)
        else:
            self._other.send(data)

    def eof_received(self) -> bool:
        """The other end sends nothing more."""
        self.has_ended = True
        if self._is_told or self._other is None or self._other.has_ended:
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
        if self.transport is None or self.transport.is_closing():
            return transport.abort()
        self.leader = leader
        farewell = self._protocol.farewell
        self._other = end = LeaderEnd(self, None if farewell is None else farewell())
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
        if self._is_told or self.has_ended:
            self.close()
            return False
        if self._other is not None and self._other.goodbye(LOST):
            self.leave(LOST)
            return False
        self._abort_after(END_SECONDS_MAX)
        return self.end_side()

    def leader_lost(self) -> None:
        """The connection with the leader is closed."""
        if not self._is_told:
            self.leave(LOST)

    def leave(self, reason: str) -> None:
        """Close it because it cannot be passed on any more; with a goodbye where the protocol allows it."""
        if self._is_told or self.transport is None or self.transport.is_closing():
            return
        goodbye = b""
        self._is_told = True
        if self._other is not None:
            if not self.has_ended:
                goodbye = self._other.goodbye(reason)
            self._other.close(ConnectionAbortedError())
        if goodbye:
            self.send(goodbye)
            self.set_reading(True)
            self._abort_after(GOODBYE_SECONDS_MAX)
        elif self._other is None and self._early:
            self._refusal = self._protocol.refusal(reason)
            self._abort_after(GOODBYE_SECONDS_MAX)
            self.set_reading(True)
            self._refuse(self._early)
        else:
            self._abort_after(END_SECONDS_MAX)
            self.close()

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

    def _client(self, transport: asyncio.BaseTransport) -> PassedClient:
        peer, own = _endpoint(transport, "peername"), _endpoint(transport, "sockname")
        peer = self._proxied or peer
        certificate = transport.get_extra_info("peercert") or None
        is_tls = transport.get_extra_info("sslcontext") is not None
        return PassedClient(peer.address, peer.port, own, self._door, is_tls, certificate)


def _endpoint(transport: asyncio.BaseTransport, which: str) -> Endpoint:
    address = transport.get_extra_info(which)
    return Endpoint(address[0], address[1]) if isinstance(address, tuple) else Endpoint("", 0)
