"""The socket of a connection: who is at the other end, what is unsent, and how it ends."""

import asyncio
import os
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import msgspec

from routelog.broker.identity.client_certificate import Certificate
from routelog.broker.loop.cork import Cork
from routelog.broker.sockets.long_write import OUTBOX_BYTES_HIGH, TURN_BYTES_MAX, LongWrite
from routelog.broker.sockets.proxy_header import Endpoint
from routelog.broker.waiting.intake_budget import IntakeShare
from routelog.log_backend import Octets, Scheduler
from routelog.vhosts import TrafficCounters

KEPT_BYTES_MAX = 65_536  # while the cork is in: the transport is to see that a client does not read
OUTBOX_BYTES_MAX = 64 * 1024 * 1024  # unsent: the client reads nothing; no more commands either
# For the client to answer connection.close, to read what is unsent, to end its side behind ours: as RabbitMQ.
CLOSE_SECONDS_MAX = 30.0
# For a client that has read connection.close-ok to close by itself: one whose threads close at the same time
# takes the end of our side for a failure.
LEAVE_SECONDS = 1.0

_AT_ONCE = struct.pack("ii", 1, 0)  # struct linger: on, and no second


@dataclass(frozen=True, slots=True)
class ClientIdentity:
    """What a client said of itself, for operators.

    Attributes:
        mechanism: how it logged in.
        properties: its client properties, as JSON: kept small, and rarely read.
        connected_at: milliseconds since 1970.
    """

    mechanism: str
    properties: bytes
    connected_at: int


class SocketOwner(Protocol):
    """The connection; `traffic` counts what is sent."""

    traffic: TrafficCounters

    def pause_writing(self) -> None:
        """The client does not read, or not as fast as it is sent to: deliver nothing more."""

    def resume_writing(self) -> None:
        """The client reads again."""


class SocketServices(Protocol):
    """What of a broker's services it needs."""

    loop: asyncio.AbstractEventLoop
    cork: Cork
    scheduler: Scheduler


class ClientSocket:
    """A connected socket. The event loop has set TCP_NODELAY on it.

    Attributes:
        peer: address of the client, of a Unix socket its path, mostly empty; None when it cannot be told.
        identity: of the client; None until it has introduced itself.
        name: of the connection, for the log.
        intake: where it counts what a client leaves unread; None: its user is not known yet.
        reading: from the client; see `set_reading`.
        end_reason: why it ends; empty as long as nobody has said so.
        certificate: what the client proved to be its own; None without TLS or without one.

    Args:
        proxied: the client, when the other end is a proxy that speaks for it.
    """

    __slots__ = (
        "_cork",
        "_corked_by",
        "_deadline",
        "_is_stalled",
        "_kept",
        "_kept_bytes",
        "_long",
        "_number",
        "_owner",
        "_proxied",
        "_services",
        "_traffic",
        "_transport",
        "certificate",
        "end_reason",
        "identity",
        "intake",
        "name",
        "peer",
        "reading",
    )

    def __init__(
        self,
        transport: asyncio.Transport,
        services: SocketServices,
        owner: SocketOwner,
        proxied: Endpoint | None = None,
    ) -> None:
        self._transport = transport
        self._services = services
        self._cork = services.cork
        self._corked_by = 0  # number of the cork under which it was last written to
        self._kept: list[Octets] = []
        self._kept_bytes = 0
        self._deadline: asyncio.TimerHandle | None = None
        self._owner = owner
        self._traffic = owner.traffic
        self._long: LongWrite | None = None
        self.reading = True
        self.identity: ClientIdentity | None = None
        self.intake: IntakeShare | None = None
        self._is_stalled = False
        self.end_reason = ""
        transport.set_write_buffer_limits(high=OUTBOX_BYTES_HIGH)
        self._proxied = proxied
        self.certificate: Certificate | None = transport.get_extra_info("peercert") or None
        address = transport.get_extra_info("peername")
        self.peer: str | None = None
        self.name = "local"
        if proxied is not None:
            address = proxied.address, proxied.port
        if isinstance(address, tuple):
            self.peer, self.name = address[0], f"{address[0]}:{address[1]}"
        elif isinstance(address, str):
            self.peer = address
        has_port = isinstance(address, tuple) and address[1] > 0
        self._number = 0 if has_port else _number(transport)

    @property
    def is_tls(self) -> bool:
        """Whether nobody between the client and the node can read along."""
        return self._transport.get_extra_info("sslcontext") is not None

    @property
    def cipher(self) -> tuple[str, str] | None:
        """The version of TLS and the cipher suite; None: there is none."""
        used = self._transport.get_extra_info("cipher")
        return (used[1], used[0]) if used else None

    @property
    def half_closes(self) -> bool:
        """Whether one side may end before the other: not with TLS."""
        return self._transport.can_write_eof()

    def ends(self) -> tuple[tuple[str, int], tuple[str, int]]:
        """Address and port of the client's end and of ours; empty when it is no network socket."""
        client, own = _end(self._transport, "peername"), _end(self._transport, "sockname")
        if self._proxied is not None:
            client = self._proxied.address, self._proxied.port
        return client, own

    def ends_name(self) -> str:
        """What RabbitMQ calls a connection: the client's end, then ours.

        A client without a port has a number instead, so that the name is of one connection.
        """
        peer, own = self.ends()
        return f"{peer[0]}:{peer[1] or self._number} -> {own[0]}:{own[1]}"

    def keep_alive(self) -> None:
        """Let the system notice when the client is gone: it wants no heartbeats."""
        handle = self._transport.get_extra_info("socket")
        if handle is not None and handle.family in (socket.AF_INET, socket.AF_INET6):
            handle.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def write(self, parts: Sequence[Octets]) -> None:
        """Send what lies in parts, or keep it: until the cork is out, but the first, or the client reads."""
        cork = self._cork
        if not cork.is_in:
            self._send(parts)
        elif self._corked_by != cork.number:
            # The client is at work on it while we make the rest.
            self._corked_by = cork.number
            self._send(parts)
        else:
            if not self._kept:
                cork.sockets.append(self)
            self._kept += parts
            self._kept_bytes += sum(map(len, parts))
            if self._kept_bytes > KEPT_BYTES_MAX:
                self._send_kept()

    def uncork(self) -> None:
        """Send the buffered writes."""
        if self._kept:
            self._send_kept()

    def _send_kept(self) -> None:
        parts, self._kept, self._kept_bytes = self._kept, [], 0
        self._send(parts)

    def _send(self, parts: Sequence[Octets]) -> None:
        self._traffic.sent(parts)
        if self._long is not None:
            self._long.add(parts)
        elif len(parts) == 1:
            self._transport.write(parts[0])
        elif sum(map(len, parts)) <= TURN_BYTES_MAX:
            self._transport.writelines(parts)
        else:
            self._long = LongWrite(self._transport, self._services.scheduler, self._long_ended)
            self._long.add(parts)
            self._owner.pause_writing()
            self._long.go_on()
        if self._is_stalled:
            self._leave_unread(self.unsent_bytes)

    def stall(self) -> None:
        """The client does not read: what is unsent counts until it does."""
        self._is_stalled = True
        self._leave_unread(self.unsent_bytes)

    def resumed(self) -> bool:
        """The system takes more; returns whether other things may be sent, too."""
        if self._long is None:
            self._is_stalled = False
            self._leave_unread(0)
            return True
        self._long.go_on()
        return False

    def _leave_unread(self, size: int) -> None:
        if self.intake is not None:
            self.intake.leave_unread(size)

    def _long_ended(self) -> None:
        self._long = None
        if self._transport.get_write_buffer_size() <= OUTBOX_BYTES_HIGH:
            self._owner.resume_writing()

    @property
    def unsent_bytes(self) -> int:
        """What the system has not taken, because the client does not read."""
        waiting = 0 if self._long is None else self._long.bytes
        return waiting + self._transport.get_write_buffer_size()

    @property
    def outbox_full(self) -> bool:
        """More is unsent than a client that reads would leave, or anything when there is no memory for it."""
        if self._is_stalled and self.intake is not None and self.intake.level_is_full:
            return True
        return self.unsent_bytes > OUTBOX_BYTES_MAX

    def set_reading(self, reading: bool) -> None:
        """Read from the client, or leave what it sends in its hands."""
        if reading is self.reading or self._transport.is_closing():
            return
        self.reading = reading
        if reading:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    # -- the end

    def hand_over(self) -> None:
        """Leave what is unsent to the system: the socket is about to be closed."""
        if self._kept:
            self._send_kept()
        if self._long is not None:
            self._long.hand_over()
            self._long = None

    def end(self, *, leaves: bool = False) -> None:
        """Send what is unsent and end our side; what the client sends until it ends its own is read.

        A socket that is closed with something unread, or to which more comes, is reset: then the client
        fails at what it still sends, and may lose the last that it was sent.

        Args:
            leaves: the client is about to close: it has a moment to do so.
        """
        self.hand_over()
        self.set_reading(True)
        if leaves:
            self.stop()
            self._deadline = self._services.loop.call_later(LEAVE_SECONDS, self._end_side)
        else:
            self._end_side()

    def _end_side(self) -> None:
        if self.half_closes:
            self._transport.write_eof()
        else:
            self._transport.close()  # TLS: it says goodbye and waits for the client's by itself
        self.abort_after(CLOSE_SECONDS_MAX)

    def close(self) -> None:
        """Send what is unsent, then close; a client that does not read it is dropped."""
        self.hand_over()
        self._transport.close()
        self.abort_after(CLOSE_SECONDS_MAX)

    def abort(self) -> None:
        """Reset the socket and drop what is unsent."""
        self._kept, self._kept_bytes = [], 0
        reset(self._transport)

    def abort_after(self, seconds: float) -> None:
        """Drop the socket unless another deadline, or none, is set in time."""
        self.stop()
        self._deadline = self._services.loop.call_later(seconds, self._overdue)

    def _overdue(self) -> None:
        ends_for(self, "the client took too long")
        self.abort()

    def lost(self) -> None:
        """Clean up: the socket is closed."""
        self._leave_unread(0)
        self.stop()

    def stop(self) -> None:
        """Forget the deadline."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def _end(transport: asyncio.Transport, which: str) -> tuple[str, int]:
    address = transport.get_extra_info(which)
    return (str(address[0]), int(address[1])) if isinstance(address, tuple) else ("", 0)


def _number(transport: asyncio.Transport) -> int:
    # No other open socket of this machine has the inode, whichever process has accepted it.
    handle = transport.get_extra_info("socket")
    return 0 if handle is None else os.fstat(handle.fileno()).st_ino


def client_described(client: ClientSocket | None) -> dict[str, object]:
    """What the log says of a client: how it came in, and what it calls itself."""
    if client is None or client.identity is None:
        return {}
    name, library = _called(client.identity.properties)
    return {
        "client": name,
        "library": library,
        "mechanism": client.identity.mechanism,
        "tls": client.is_tls,
    }


@lru_cache(maxsize=64)
def _called(properties: bytes) -> tuple[object, str]:
    said = msgspec.json.decode(properties)
    library = (said.get(each) for each in ("product", "version"))
    return said.get("connection_name"), " ".join(each for each in library if isinstance(each, str))


def ends_for(client: ClientSocket | None, reason: str) -> None:
    """Say why a socket ends; what is said first counts, as the rest follows from it."""
    if client is not None:
        client.end_reason = client.end_reason or reason


def ends_name(client: ClientSocket | None) -> str:
    """See `ClientSocket.ends_name`; of a connection whose socket was never there: no ends."""
    return ":0 -> :0" if client is None else client.ends_name()


def reset(transport: asyncio.Transport) -> None:
    """Close a socket with a reset: what the system still keeps for its client goes at once.

    Otherwise the system goes on sending for minutes, from megabytes of its memory, and a client that wakes up
    reads deliveries that others have by then.
    """
    handle = transport.get_extra_info("socket")
    is_open = handle is not None and handle.fileno() >= 0
    if is_open and handle.family in (socket.AF_INET, socket.AF_INET6):
        handle.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
    transport.abort()
