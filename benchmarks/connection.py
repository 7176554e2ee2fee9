"""A blocking AMQP connection: the handshake and rare methods through pamqp, then a bare socket."""

import socket
import struct
from typing import TypeVar
from urllib.parse import unquote, urlsplit

from pamqp import base, commands, exceptions, frame, header

from benchmarks.frames import CHANNEL, CLOSE_FRAME
from benchmarks.unexpected import BrokerStalled, RunFailed, UnexpectedFrame, described

STALL_SECONDS = 20  # longer than any garbage collection or sync, short enough to wait for

Method = TypeVar("Method", bound=base.Frame)


class Connection:
    """One connection with channel 1 open.

    Time-outs are the kernel's, so that a receive stays one system call.
    """

    def __init__(self, url: str) -> None:
        self._rest = b""
        parts = urlsplit(url)
        address = parts.hostname or "127.0.0.1", parts.port or 5672
        self.socket = socket.create_connection(address, timeout=STALL_SECONDS)
        self.socket.settimeout(None)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        stall = struct.pack("@ll", STALL_SECONDS, 0)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, stall)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, stall)
        self._shake_hands(
            unquote(parts.username or "guest"),
            unquote(parts.password or "guest"),
            unquote(parts.path[1:]) or "/",
        )

    def _shake_hands(self, user: str, password: str, vhost: str) -> None:
        self.send(header.ProtocolHeader(0, 9, 1).marshal())
        self._expect(commands.Connection.Start)
        start_ok = commands.Connection.StartOk(
            {"product": "benchmarks", "capabilities": {"publisher_confirms": True}},
            response=f"\0{user}\0{password}",
        )
        self.send(frame.marshal(start_ok, 0))
        tune = self._expect(commands.Connection.Tune)
        # No heartbeats: every byte that follows belongs to the case.
        tune_ok = commands.Connection.TuneOk(tune.channel_max, tune.frame_max, 0)
        self.send(frame.marshal(tune_ok, 0))
        self.send(frame.marshal(commands.Connection.Open(vhost), 0))
        self._expect(commands.Connection.OpenOk)
        self.call(commands.Channel.Open(), commands.Channel.OpenOk)

    def call(self, method: base.Frame, reply: type[Method]) -> Method:
        """Send a method on channel 1 and wait for its reply.

        Raises:
            RunFailed: the broker answered with something else, or not at all.
        """
        self.send(frame.marshal(method, CHANNEL))
        return self._expect(reply)

    def send(self, data: bytes | memoryview) -> None:
        """Send all of it; BrokerStalled when the broker stops reading."""
        try:
            self.socket.sendall(data)
        except BlockingIOError as error:
            raise BrokerStalled(f"the broker took no bytes for {STALL_SECONDS} s") from error

    def receive(self) -> bytes:
        """At least one byte."""
        if self._rest:
            data, self._rest = self._rest, b""
            return data
        try:
            data = self.socket.recv(65_536)
        except BlockingIOError as error:
            raise BrokerStalled(f"the broker sent nothing for {STALL_SECONDS} s") from error
        if not data:
            raise RunFailed("the broker closed the connection")
        return data

    def receive_into(self, buffer: memoryview) -> int:
        """At least one byte; the number of bytes."""
        if self._rest:
            count, rest = len(self._rest), self._rest
            self._rest = b""
            buffer[:count] = rest
            return count
        try:
            count = self.socket.recv_into(buffer)
        except BlockingIOError as error:
            raise BrokerStalled(f"the broker sent nothing for {STALL_SECONDS} s") from error
        if not count:
            raise RunFailed("the broker closed the connection")
        return count

    def close(self) -> None:
        """Close in order: the broker has handled everything sent before."""
        self.send(CLOSE_FRAME)
        self._expect(commands.Connection.CloseOk)
        self.socket.close()

    def _expect(self, reply: type[Method]) -> Method:
        data = self.receive()
        while True:
            try:
                used, _, value = frame.unmarshal(data)
                break
            except exceptions.UnmarshalingException:
                data += self.receive()
        if not isinstance(value, reply):
            raise UnexpectedFrame(f"replies (instead of {reply.name})", described(data))
        self._rest = data[used:]
        return value
