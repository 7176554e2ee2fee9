"""An AMQP client without manners: a socket, frames as the test wants them, and what came back.

Right frames are built with pamqp; wrong ones by hand from `frame`, `method` and the encoders.
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import time
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from pamqp import body, commands, header, heartbeat
from pamqp import frame as pamqp_frame
from support.waiting import WAIT_SECONDS

PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
FRAME_METHOD, FRAME_HEADER, FRAME_BODY, FRAME_HEARTBEAT = 1, 2, 3, 8
FRAME_END = b"\xce"
FRAME_BYTES_MAX = 131_072
CAPABILITIES = {
    "authentication_failure_close": True,
    "basic.nack": True,
    "connection.blocked": True,
    "consumer_cancel_notify": True,
    "publisher_confirms": True,
}

AnyFrame = Any
FrameT = TypeVar("FrameT")


class Dropped(Exception):
    """The broker closed the socket."""


class Silent(TimeoutError):
    """Nothing came in time."""


@dataclass(frozen=True)
class Outcome:
    """What the broker made of an input: `scope` is connection, channel, drop or ok."""

    scope: str
    code: int = 0
    text: str = ""
    class_id: int = 0
    method_id: int = 0


def frame(kind: int, channel: int, payload: bytes, end: bytes = FRAME_END) -> bytes:
    """One frame, right or wrong in every part."""
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + end


def method(class_id: int, method_id: int, arguments: bytes = b"", channel: int = 1) -> bytes:
    """A method frame with arguments as raw bytes."""
    return frame(FRAME_METHOD, channel, struct.pack(">HH", class_id, method_id) + arguments)


def content_header(
    size: int, properties: bytes = b"\0\0", class_id: int = 60, weight: int = 0, channel: int = 1
) -> bytes:
    """A content header frame; `properties` are the flags and what they announce."""
    payload = struct.pack(">HHQ", class_id, weight, size) + properties
    return frame(FRAME_HEADER, channel, payload)


def content_body(payload: bytes, channel: int = 1) -> bytes:
    """A content body frame."""
    return frame(FRAME_BODY, channel, payload)


def short(text: str | bytes) -> bytes:
    """A short string."""
    raw = text.encode() if isinstance(text, str) else text
    return bytes([len(raw)]) + raw


def long(raw: bytes) -> bytes:
    """A long string; a table and an array are the same shape around their entries."""
    return struct.pack(">I", len(raw)) + raw


def queue_declare(
    name: str | bytes, flags: int = 0, table: bytes = b"\0\0\0\0", channel: int = 1
) -> bytes:
    """queue.declare with any name and any bytes as argument table."""
    return method(50, 10, b"\0\0" + short(name) + bytes([flags]) + table, channel)


def publish(
    exchange: str | bytes, routing_key: str | bytes, flags: int = 0, channel: int = 1
) -> bytes:
    """basic.publish, without its content."""
    arguments = b"\0\0" + short(exchange) + short(routing_key) + bytes([flags])
    return method(60, 40, arguments, channel)


def message(
    routing_key: str, payload: bytes, properties: bytes = b"\0\0", channel: int = 1
) -> bytes:
    """A whole message to the default exchange, its body in one frame if it has one."""
    head = publish("", routing_key, 0, channel) + content_header(
        len(payload), properties, channel=channel
    )
    return head + content_body(payload, channel) if payload else head


def nested_table(depth: int) -> bytes:
    """A field table that holds tables in tables; depth 1 is one empty table."""
    inner = b""
    for _ in range(depth - 1):
        inner = short("t") + b"F" + long(inner)
    return long(inner)


def plain(user: str = "guest", password: str = "guest") -> str:
    """The PLAIN response of a user."""
    return f"\0{user}\0{password}"


class RawClient:
    """One socket to a broker. Nothing is sent or answered that the test did not ask for."""

    def __init__(self, host: str, port: int) -> None:
        self.socket = socket.create_connection((host, port), WAIT_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.tune = commands.Connection.Tune()
        self._received = bytearray()
        self._ended = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send_bytes(self, raw: bytes) -> None:
        """Send bytes as they are; a broker that has hung up meanwhile is found when reading."""
        with contextlib.suppress(OSError):
            self.socket.sendall(raw)

    def send(self, value: AnyFrame, channel: int = 0) -> None:
        """Send one well-formed frame."""
        self.send_bytes(pamqp_frame.marshal(value, channel))

    def receive(self, seconds: float = WAIT_SECONDS) -> tuple[int, AnyFrame]:
        """The next frame and its channel.

        Raises:
            Dropped: the socket was closed, and everything before that has been received.
            Silent: no whole frame came in time.
        """
        deadline = time.monotonic() + seconds
        while True:
            size = self._whole_frame_bytes()
            if size:
                raw = bytes(self._received[:size])
                del self._received[:size]
                _, channel, value = pamqp_frame.unmarshal(raw)
                return channel, value
            self._fill(deadline)

    def receive_bytes(self, count: int, seconds: float = WAIT_SECONDS) -> bytes:
        """The next bytes, whatever they are."""
        deadline = time.monotonic() + seconds
        while len(self._received) < count:
            self._fill(deadline)
        raw = bytes(self._received[:count])
        del self._received[:count]
        return raw

    def expect(self, kind: type[FrameT], seconds: float = WAIT_SECONDS) -> FrameT:
        """The next frame that is no heartbeat, which has to be of this kind."""
        while True:
            _, value = self.receive(seconds)
            if isinstance(value, kind):
                return value
            if not isinstance(value, heartbeat.Heartbeat):
                raise AssertionError(f"expected {kind.__name__}, got {_describe(value)}")

    def call(self, value: AnyFrame, answer: type[FrameT], channel: int = 1) -> FrameT:
        """Send a method and return its answer."""
        self.send(value, channel)
        return self.expect(answer)

    def wait_until_dropped(self, seconds: float = WAIT_SECONDS) -> None:
        """Wait for the end of the stream; heartbeats may come before it.

        Raises:
            Silent: the socket stayed open.
        """
        deadline = time.monotonic() + seconds
        try:
            while True:
                _, value = self.receive(deadline - time.monotonic())
                if not isinstance(value, heartbeat.Heartbeat):
                    raise AssertionError(f"expected the end, got {_describe(value)}")
        except Dropped:
            return

    def start(self) -> commands.Connection.Start:
        """Send the protocol header and receive connection.start."""
        self.send_bytes(PROTOCOL_HEADER)
        return self.expect(commands.Connection.Start)

    def log_in(
        self,
        mechanism: str = "PLAIN",
        response: str | None = None,
        capabilities: dict[str, bool] | None = None,
    ) -> None:
        """Send start-ok; the caller receives the answer."""
        known = CAPABILITIES if capabilities is None else capabilities
        properties: dict[str, Any] = {"product": "raw client", "capabilities": known}
        answer = plain() if response is None else response
        self.send(commands.Connection.StartOk(properties, mechanism, answer))

    def tune_ok(
        self, channel_max: int | None = None, frame_max: int | None = None, beat: int = 0
    ) -> None:
        """Receive connection.tune and answer it, by default with the broker's own numbers."""
        self.tune = self.expect(commands.Connection.Tune)
        channels = self.tune.channel_max if channel_max is None else channel_max
        octets = self.tune.frame_max if frame_max is None else frame_max
        self.send(commands.Connection.TuneOk(channels, octets, beat))

    def open(
        self,
        vhost: str = "/",
        capabilities: dict[str, bool] | None = None,
        channel_max: int | None = None,
        frame_max: int | None = None,
        beat: int = 0,
        response: str | None = None,
    ) -> Self:
        """The whole handshake, up to connection.open-ok."""
        self.start()
        self.log_in(response=response, capabilities=capabilities)
        self.tune_ok(channel_max, frame_max, beat)
        self.send(commands.Connection.Open(vhost))
        self.expect(commands.Connection.OpenOk)
        return self

    def open_channel(self, number: int = 1) -> None:
        """Open a channel."""
        self.call(commands.Channel.Open(), commands.Channel.OpenOk, number)

    def declare(self, name: str = "", **options: Any) -> str:
        """Declare a queue on channel 1, exclusive unless told otherwise, and return its name."""
        options.setdefault("exclusive", True)
        declared = self.call(
            commands.Queue.Declare(queue=name, **options), commands.Queue.DeclareOk
        )
        return str(declared.queue)

    def get(self, queue: str) -> bytes | None:
        """Take one message with basic.get, acknowledged; None when the queue is empty."""
        self.send(commands.Basic.Get(queue=queue, no_ack=True), 1)
        _, value = self.receive()
        if isinstance(value, commands.Basic.GetEmpty):
            return None
        assert isinstance(value, commands.Basic.GetOk), _describe(value)
        return self.receive_content()[1]

    def receive_content(self) -> tuple[commands.Basic.Properties, bytes]:
        """The content header and the whole body that follow a content method."""
        head = self.expect(header.ContentHeader)
        parts: list[bytes] = []
        while sum(map(len, parts)) < head.body_size:
            parts.append(self.expect(body.ContentBody).value)
        return head.properties, b"".join(parts)

    def outcome(self, channel: int = 1, seconds: float = WAIT_SECONDS) -> Outcome:
        """See what the input sent so far led to, as a client that keeps to the protocol from here.

        A close is answered with close-ok; after connection.close the socket has to end, after
        channel.close the channel has to open again. To tell "ok" from "not read yet" the channel
        is asked for something harmless; what else the broker sends meanwhile is passed over.
        """
        self.send(commands.Exchange.Declare(exchange="amq.direct", passive=True), channel)
        deadline = time.monotonic() + seconds
        while True:
            try:
                number, value = self.receive(deadline - time.monotonic())
            except Dropped:
                return Outcome("drop")
            if isinstance(value, commands.Connection.Close):
                self.send(commands.Connection.CloseOk())
                self.wait_until_dropped()
                return _closed("connection", value)
            if isinstance(value, commands.Channel.Close) and number == channel:
                self.send(commands.Channel.CloseOk(), channel)
                self.open_channel(channel)
                return _closed("channel", value)
            if isinstance(value, commands.Exchange.DeclareOk) and number == channel:
                return Outcome("ok")

    def _whole_frame_bytes(self) -> int:
        if self._received[:4] == b"AMQP":
            return 8 if len(self._received) >= 8 else 0
        if len(self._received) < 7:
            return 0
        size = 8 + int.from_bytes(self._received[3:7], "big")
        return size if len(self._received) >= size else 0

    def _fill(self, deadline: float) -> None:
        if self._ended:
            raise Dropped
        wait = deadline - time.monotonic()
        poll = select.poll()  # unlike select.select, it takes descriptors above 1,023
        poll.register(self.socket, select.POLLIN)
        if wait <= 0 or not poll.poll(wait * 1000):
            raise Silent
        try:
            raw = self.socket.recv(262_144)
        except ConnectionError:
            raw = b""
        if not raw:
            self._ended = True
            raise Dropped
        self._received += raw


def _closed(scope: str, close: Any) -> Outcome:
    return Outcome(scope, close.reply_code, close.reply_text, close.class_id, close.method_id)


def _describe(value: AnyFrame) -> str:
    if isinstance(value, commands.Connection.Close | commands.Channel.Close):
        return f"{value.name} {value.reply_code} {value.reply_text}"
    return str(getattr(value, "name", value))
