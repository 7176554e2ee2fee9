"""A client without a socket: bytes go straight into a connection of a real broker, and its answers are kept."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pamqp import base, body, commands, header, heartbeat
from pamqp import frame as pamqp_frame
from support.waiting import until

from routelog.amqp_front.connections.connection import Connection
from routelog.amqp_front.node.services import Services
from routelog.amqp_front.server.front import AmqpFront
from routelog.broker.node.configuration import BrokerConfig
from routelog.broker.process.broker import Broker
from routelog.log_backend import SystemClock

PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
CAPABILITIES = {"authentication_failure_close": True, "consumer_cancel_notify": True}
LOGIN = commands.Connection.StartOk(
    {"capabilities": CAPABILITIES}, "PLAIN", "\0guest\0guest", "en_US"
)
TUNE_OK = commands.Connection.TuneOk(channel_max=10, frame_max=4096, heartbeat=0)


class FakeTransport(asyncio.Transport):
    """A transport whose other end is the test.

    Attributes:
        written: what was sent to the client and not taken yet.
        reads: the broker reads.
        unread: bytes that were sent, and that the client does not read.
        end: how the broker has ended it: `eof`, `close`, `abort`; None: it has not.
    """

    def __init__(self, address: str = "127.0.0.1") -> None:
        super().__init__({"peername": (address, 50_000), "sockname": ("127.0.0.1", 5672)})
        self.written = bytearray()
        self.reads = True
        self.unread = 0
        self.end: str | None = None

    def write(self, data: Any) -> None:
        """See `asyncio.Transport`."""
        assert self.end is None, f"written behind {self.end}"
        self.written += data

    def writelines(self, list_of_data: Any) -> None:
        """See `asyncio.Transport`."""
        self.write(b"".join(list_of_data))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """See `asyncio.Transport`."""

    def get_write_buffer_size(self) -> int:
        """See `asyncio.Transport`."""
        return self.unread

    def pause_reading(self) -> None:
        """See `asyncio.Transport`."""
        self.reads = False

    def resume_reading(self) -> None:
        """See `asyncio.Transport`."""
        self.reads = True

    def can_write_eof(self) -> bool:
        """See `asyncio.Transport`."""
        return True

    def write_eof(self) -> None:
        """See `asyncio.Transport`."""
        self._ended("eof")

    def close(self) -> None:
        """See `asyncio.Transport`."""
        self._ended("close")

    def abort(self) -> None:
        """See `asyncio.Transport`."""
        self._ended("abort")

    def is_closing(self) -> bool:
        """See `asyncio.Transport`."""
        return self.end in ("close", "abort")

    def _ended(self, how: str) -> None:
        self.end = self.end or how


class ByteClient:
    """A client of a broker, and what keeps its connection.

    Attributes:
        was_opened, was_closed: what the connection has told its keeper.

    Args:
        refusal: see `Connection`.
    """

    def __init__(self, broker: Broker, address: str = "127.0.0.1", refusal: str = "") -> None:
        self.was_opened = self.was_closed = 0
        self.transport = FakeTransport(address)
        self.connection = Connection(Services.of(broker.services), self, refusal=refusal)
        self.connection.connection_made(self.transport)

    def opened(self, connection: Connection) -> None:
        """See `ConnectionKeeper`."""
        self.was_opened += 1

    def closed(self, connection: Connection) -> None:
        """See `ConnectionKeeper`."""
        self.was_closed += 1

    async def send(self, content: bytes, step: int = 1 << 20) -> None:
        """Have the connection read these bytes, some at a time, as far and as soon as it reads."""
        while content and not self.transport.is_closing():
            await until(lambda: self.transport.reads or self.transport.is_closing())
            room = self.connection.get_buffer(-1)
            size = min(len(room), len(content), step)
            room[:size] = content[:size]
            content = content[size:]
            self.connection.buffer_updated(size)

    async def receive(self, count: int = 1) -> list[Any]:
        """The next frames that the broker sends."""
        frames: list[Any] = []
        while len(frames) < count:
            await until(self._has_frame)
            used, _, frame = pamqp_frame.unmarshal(bytes(self.transport.written))
            del self.transport.written[:used]
            frames.append(frame)
        return frames

    async def expect(self, content: bytes) -> None:
        """Wait for as many bytes as these, which must be these."""
        written = self.transport.written
        await until(lambda: len(written) >= len(content) or self.transport.end)
        assert bytes(written[: len(content)]) == content
        del written[: len(content)]

    async def expect_end(self, how: str) -> None:
        """Wait until the broker ends its side; nothing more has been sent."""
        await until(lambda: self.transport.end)
        assert (self.transport.end, bytes(self.transport.written)) == (how, b"")

    async def open(self, *channels: int) -> ByteClient:
        """Log in, and open the vhost and these channels."""
        await self.send(PROTOCOL_HEADER + methods(LOGIN))
        start, tune = await self.receive(2)
        assert isinstance(start, commands.Connection.Start)
        assert isinstance(tune, commands.Connection.Tune)
        await self.send(methods(TUNE_OK, commands.Connection.Open("/")))
        await self.expect(methods(commands.Connection.OpenOk()))
        for number in channels:
            await self.send(methods(commands.Channel.Open(), channel=number))
            await self.expect(channel_opened(number))
        return self

    def _has_frame(self) -> bool:
        written = self.transport.written
        return len(written) >= 7 and len(written) >= 8 + int.from_bytes(written[3:7], "big")


def methods(*frames: base.Frame, channel: int = 0) -> bytes:
    """Method frames of a channel."""
    return b"".join(pamqp_frame.marshal(each, channel) for each in frames)


def channel_opened(number: int) -> bytes:
    """The broker's answer to channel.open."""
    return b"\x01" + number.to_bytes(2, "big") + b"\0\0\0\x08\0\x14\0\x0b\0\0\0\0\xce"


def heartbeats(count: int = 1) -> bytes:
    """Frames of heartbeats."""
    return pamqp_frame.marshal(heartbeat.Heartbeat(), 0) * count


def content(
    text: bytes, properties: commands.Basic.Properties | None = None, channel: int = 1
) -> bytes:
    """The content of a message, its body in one frame if it has one."""
    head = header.ContentHeader(0, len(text), properties or commands.Basic.Properties())
    bodies: Sequence[body.ContentBody] = [body.ContentBody(text)] if text else []
    return b"".join(pamqp_frame.marshal(each, channel) for each in (head, *bodies))


@asynccontextmanager
async def running_broker(data: Path, **configuration: Any) -> AsyncIterator[Broker]:
    """A broker on its own with the user and the vhost that are there by default."""
    config = BrokerConfig(
        data_dir=data, host="127.0.0.1", port=0, management=False, prometheus=False, **configuration
    )
    broker = Broker(config, AmqpFront(config, "node", SystemClock()))
    await broker.start()
    try:
        yield broker
    finally:
        await broker.stop()
