"""A blocking AMQP connection: the handshake and rare methods through pamqp, then a bare socket."""

import socket
import ssl
import struct
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

from pamqp import base, commands, exceptions, frame, header, heartbeat

from routelog.benchmarks.traffic.endpoint import Endpoint
from routelog.benchmarks.traffic.frames import CHANNEL, CLOSE_FRAME
from routelog.benchmarks.traffic.unexpected import BrokerRefused, BrokerStalled, unexpected

STALL_SECONDS = 20  # longer than any garbage collection or sync, short enough to wait for
_METHODS_IN_FLIGHT = 500  # few enough that neither side stops reading, for what it has to send
_SERVER_KEYS = ("product", "version")
_TIMED_OUT = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)

Method = TypeVar("Method", bound=base.Frame)


class Connection:
    """One connection with channel 1 open, or more, or none.

    Time-outs are the kernel's, so that a receive stays one system call.
    """

    def __init__(self, uri: str, *, channels: int = 1, heartbeat_seconds: int = 0) -> None:
        """Connect and log in.

        Args:
            channels: to open, numbered from 1.
            heartbeat_seconds: asked for; 0: none, so every byte that follows belongs to the run. Nothing
                is sent by itself, so the broker ends a connection that is silent for twice as long.

        Raises:
            BadRequest: the URI is none.
            BrokerRefused: nobody is there, or does not let us in.
        """
        self._rest = b""
        endpoint = Endpoint.parse(uri)
        self.frame_max = 0  # bytes, as the broker wants it
        self.server = ""  # product and version, as the broker says them
        self.socket = _connected(endpoint)
        try:
            self._shake_hands(endpoint, heartbeat_seconds)
            self._open(channels)
        except BaseException:
            self.socket.close()
            raise

    def _shake_hands(self, endpoint: Endpoint, heartbeat_seconds: int) -> None:
        self.send(header.ProtocolHeader(0, 9, 1).marshal())
        properties = self.expect(commands.Connection.Start).server_properties or {}
        platform = str(properties.get("platform", ""))
        named = " ".join(str(properties[key]) for key in _SERVER_KEYS if key in properties)
        # Others than RabbitMQ call themselves so for their clients' sake.
        self.server = platform if platform.startswith("RouteLog") else named
        start_ok = commands.Connection.StartOk(
            {
                "product": "routelog perf",
                "capabilities": {"publisher_confirms": True, "authentication_failure_close": True},
            },
            response=f"\0{endpoint.user}\0{endpoint.password}",
        )
        self.send(frame.marshal(start_ok, 0))
        tune = self.expect(commands.Connection.Tune)
        self.frame_max = tune.frame_max or 131_072
        tune_ok = commands.Connection.TuneOk(tune.channel_max, tune.frame_max, heartbeat_seconds)
        self.send(frame.marshal(tune_ok, 0))
        self.send(frame.marshal(commands.Connection.Open(endpoint.vhost), 0))
        self.expect(commands.Connection.OpenOk)

    def _open(self, channels: int) -> None:
        for number in range(1, channels + 1):
            self.send(frame.marshal(commands.Channel.Open(), number))
            self.expect(commands.Channel.OpenOk)

    def call(self, method: base.Frame, reply: type[Method]) -> Method:
        """Send a method on channel 1 and wait for its reply.

        Raises:
            RunFailed: the broker answered with something else, or not at all.
        """
        self.send(frame.marshal(method, CHANNEL))
        return self.expect(reply)

    def call_each(self, methods: Iterable[base.Frame], reply: type[Method]) -> Iterator[Method]:
        """Send many methods without waiting for each; gives their replies in order.

        Raises:
            RunFailed: the broker refused one.
        """
        left = iter(methods)
        while some := [frame.marshal(m, CHANNEL) for m in islice(left, _METHODS_IN_FLIGHT)]:
            self.send(b"".join(some))
            for _ in some:
                yield self.expect(reply)

    def send(self, data: bytes | memoryview) -> None:
        """Send all of it.

        Raises:
            BrokerStalled: the broker stopped reading.
            BrokerRefused: it went away; what it said last is the reason given.
        """
        try:
            self.socket.sendall(data)
        except _TIMED_OUT:
            raise BrokerStalled(f"the broker took no bytes for {STALL_SECONDS} s") from None
        except (ConnectionError, ssl.SSLError) as error:
            raise self._last_words(error) from error

    def send_each(self, data: memoryview, size: int) -> None:
        """Send what lies in pieces of one size, each of them in a write of its own; raises as `send`."""
        for at in range(0, len(data), size):
            self.send(data[at : at + size])

    def receive(self) -> bytes:
        """Receive at least one byte."""
        if self._rest:
            data, self._rest = self._rest, b""
            return data
        buffer = bytearray(65_536)
        return bytes(memoryview(buffer)[: self.receive_into(memoryview(buffer))])

    def receive_into(self, buffer: memoryview) -> int:
        """At least one byte; the number of bytes.

        Raises:
            BrokerStalled: nothing came for a long time.
            BrokerRefused: the broker went away.
        """
        if self._rest:
            count, rest = min(len(self._rest), len(buffer)), self._rest
            self._rest = rest[count:]
            buffer[:count] = rest[:count]
            return count
        try:
            count = self.socket.recv_into(buffer)
        except _TIMED_OUT:
            raise BrokerStalled(f"the broker sent nothing for {STALL_SECONDS} s") from None
        except (ConnectionError, ssl.SSLError) as error:
            raise BrokerRefused(f"the connection broke: {error.strerror or error}") from error
        if not count:
            raise BrokerRefused("the broker closed the connection")
        return count

    @property
    def pending(self) -> bool:
        """Whether bytes were received already that a poll of the socket does not show."""
        if self._rest:
            return True
        return isinstance(self.socket, ssl.SSLSocket) and self.socket.pending() > 0

    def close(self) -> None:
        """Close in order: the broker has handled everything sent before."""
        self.send(CLOSE_FRAME)
        self.expect(commands.Connection.CloseOk)
        self.socket.close()

    def expect(self, reply: type[Method]) -> Method:
        """Wait for a method.

        Raises:
            RunFailed: the broker answered with something else, or not at all.
        """
        data = self.receive()
        while True:
            try:
                used, _, value = frame.unmarshal(data)
            except exceptions.UnmarshalingException:
                data += self.receive()
                continue
            if not isinstance(value, heartbeat.Heartbeat):
                break
            data = data[used:] or self.receive()
        if not isinstance(value, reply):
            raise unexpected(f"replies, instead of {reply.__name__}", data)
        self._rest = data[used:]
        return value

    def _last_words(self, error: OSError) -> BrokerRefused:
        """The reason in a closing frame that came before the connection broke, or how it broke."""
        try:
            said = unexpected("replies", self.socket.recv(65_536))
        except OSError:
            said = None
        if isinstance(said, BrokerRefused):
            return said
        return BrokerRefused(f"the connection broke: {error.strerror or error}")


def _connected(endpoint: Endpoint) -> socket.socket:
    context = endpoint.tls_context()
    try:
        bare = socket.create_connection((endpoint.host, endpoint.port), timeout=STALL_SECONDS)
    except OSError as error:
        raise BrokerRefused(f"{endpoint.address}: {error.strerror or error}") from error
    bare.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    wrapped = bare
    if context is not None:
        try:
            wrapped = context.wrap_socket(bare, server_hostname=endpoint.host)
        except (ssl.SSLError, OSError) as error:
            bare.close()
            reason = getattr(error, "verify_message", "") or error.strerror or error
            raise BrokerRefused(f"{endpoint.address}: no TLS: {reason}") from error
    wrapped.settimeout(None)
    stall = struct.pack("@ll", STALL_SECONDS, 0)
    wrapped.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, stall)
    wrapped.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, stall)
    return wrapped
