"""The socket of a connection: who is at the other end, what is unsent, and how it ends."""

import asyncio
import socket
from collections.abc import Sequence
from dataclasses import dataclass

from amqp_front.client_certificate import Certificate
from amqp_front.proxy_header import Endpoint
from log_backend import Octets

OUTBOX_BYTES_HIGH = 1_048_576  # unsent: no more deliveries; about 8 ms at 1 Gbit/s
OUTBOX_BYTES_MAX = 64 * 1024 * 1024  # unsent: the client reads nothing; no more commands either
CLOSE_SECONDS_MAX = 30.0  # for the client to answer connection.close, and to read what is unsent


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


class ClientSocket:
    """A connected socket. The event loop has set TCP_NODELAY on it.

    Attributes:
        peer: address of the client, of a Unix socket its path, mostly empty; None when it cannot be told.
        identity: of the client; None until it has introduced itself.
        name: of the connection, for the log.
        certificate: what the client proved to be its own; None without TLS or without one.

    Args:
        proxied: the client, when the other end is a proxy that speaks for it.
    """

    __slots__ = (
        "_deadline",
        "_loop",
        "_reading",
        "_transport",
        "certificate",
        "identity",
        "name",
        "peer",
    )

    def __init__(
        self,
        transport: asyncio.Transport,
        loop: asyncio.AbstractEventLoop,
        proxied: Endpoint | None = None,
    ) -> None:
        self._transport = transport
        self._loop = loop
        self._deadline: asyncio.TimerHandle | None = None
        self._reading = True
        self.identity: ClientIdentity | None = None
        transport.set_write_buffer_limits(high=OUTBOX_BYTES_HIGH)
        self.certificate: Certificate | None = transport.get_extra_info("peercert") or None
        address = transport.get_extra_info("peername")
        self.peer: str | None = None
        self.name = "local"
        if proxied is not None:
            address = (proxied.address, proxied.port)
        if isinstance(address, tuple):
            self.peer, self.name = address[0], f"{address[0]}:{address[1]}"
        elif isinstance(address, str):
            self.peer = address

    def ends(self) -> tuple[tuple[str, int], tuple[str, int]]:
        """Address and port of the client's end and of ours; empty when it is no network socket."""
        return _end(self._transport, "peername"), _end(self._transport, "sockname")

    def _set_option(self, level: int, option: int, value: int = 1) -> None:
        handle = self._transport.get_extra_info("socket")
        if handle is not None and handle.family in (socket.AF_INET, socket.AF_INET6):
            handle.setsockopt(level, option, value)

    def keep_alive(self) -> None:
        """Let the system notice when the client is gone: it wants no heartbeats."""
        self._set_option(socket.SOL_SOCKET, socket.SO_KEEPALIVE)

    def drop_if_unreachable(self, seconds: float) -> None:
        """Let the system drop the socket when the client has not taken what is sent for so long.

        Args:
            seconds: 0: as long as the system tries by itself, about a quarter of an hour.
        """
        if not self._transport.is_closing():
            milliseconds = round(seconds * 1000)
            self._set_option(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)

    def write(self, parts: Sequence[Octets]) -> None:
        """Send what lies in parts, or keep it until the client reads."""
        if len(parts) == 1:
            self._transport.write(parts[0])
        else:
            self._transport.writelines(parts)

    @property
    def outbox_full(self) -> bool:
        """More is unsent than a client that reads would leave."""
        return self._transport.get_write_buffer_size() > OUTBOX_BYTES_MAX

    def set_reading(self, reading: bool) -> None:
        """Read from the client, or leave what it sends in its hands."""
        if reading is self._reading or self._transport.is_closing():
            return
        self._reading = reading
        if reading:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    # -- the end

    def close(self) -> None:
        """Send what is unsent, then close; a client that does not read it is dropped."""
        self._transport.close()
        self.abort_after(CLOSE_SECONDS_MAX)

    def abort(self) -> None:
        """Drop the socket and what is unsent."""
        self._transport.abort()

    def abort_after(self, seconds: float) -> None:
        """Drop the socket unless another deadline, or none, is set in time."""
        self.stop()
        self._deadline = self._loop.call_later(seconds, self.abort)

    def stop(self) -> None:
        """Forget the deadline."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def _end(transport: asyncio.Transport, which: str) -> tuple[str, int]:
    address = transport.get_extra_info(which)
    return (str(address[0]), int(address[1])) if isinstance(address, tuple) else ("", 0)


def ends_name(client: ClientSocket | None) -> str:
    """What RabbitMQ calls a connection: the client's end, then ours."""
    peer, own = client.ends() if client is not None else (("", 0), ("", 0))
    return f"{peer[0]}:{peer[1]} -> {own[0]}:{own[1]}"
