"""A client that notes what it is sent, in streams of what comes in a promised order."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from pamqp import base, body, commands, header, heartbeat
from pamqp import frame as pamqp_frame
from support.waiting import WAIT_SECONDS

PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
MARKS = 9  # the channel of what tells that a client has everything; the tests have the others
GOT = "get"  # where a message came from that no consumer was given
PERSISTENT = 2
CAPABILITIES = {
    "authentication_failure_close": True,
    "consumer_cancel_notify": True,
    "connection.blocked": True,
}
_PASSED_OVER = (heartbeat.Heartbeat, commands.Connection.Blocked, commands.Connection.Unblocked)
_CONTENT = (commands.Basic.Deliver, commands.Basic.GetOk, commands.Basic.Return)


@dataclass(frozen=True)
class Held:
    """A delivery that is not settled."""

    source: str  # the consumer, or GOT
    content: bytes
    tag: int

    @property
    def name(self) -> tuple[str, bytes]:
        """What it is called in every run: tags are given in an order that nobody promises."""
        return self.source, self.content


@dataclass(frozen=True)
class Consumer:
    """What a channel consumes by one tag."""

    queue: str
    group: str = ""
    priority: int = 0
    no_ack: bool = False


@dataclass
class WatchedChannel:
    """What the client knows of a channel.

    Attributes:
        mode: "", "confirm" or "tx".
        held: in the order of the tags.
        settled: within a transaction that has not ended.
        unconfirmed: what was published, by its number.
    """

    number: int
    is_open: bool = False
    mode: str = ""
    prefetch_of_all: int = 0
    published: int = 0
    consumers: dict[str, Consumer] = field(default_factory=dict)
    held: list[Held] = field(default_factory=list)
    settled: list[Held] = field(default_factory=list)
    unconfirmed: dict[int, bytes] = field(default_factory=dict)
    returned: set[bytes] = field(default_factory=set)
    answer: asyncio.Future[base.Frame | None] | None = None
    content: Any = None  # the method of the message that is coming
    head: Any = None

    def names(self) -> list[tuple[str, bytes]]:
        """Of what is held, in an order that is the same in all runs."""
        return sorted(each.name for each in self.held)

    def stream(self, tag: str) -> str:
        """The name of what a consumer is given."""
        consumer = self.consumers.get(tag)
        return f"{self.number} from {tag} of {consumer and consumer.queue}"


class _Wire(asyncio.Protocol):
    """A connection of a client, which may have another one since."""

    def __init__(self, client: WatchedClient) -> None:
        self._client = client

    def data_received(self, data: bytes) -> None:
        if self._client.wire is self:
            self._client.take(data)

    def connection_lost(self, error: Exception | None) -> None:
        if self._client.wire is self:
            self._client.lose()


class WatchedClient:
    """One connection to a vhost.

    Args:
        mark: the queue by which it learns that it has everything.

    Attributes:
        seen: what came since somebody looked, by its stream.
        count: how much has come.
        gets_without_acks: what it asks for by basic.get.
    """

    def __init__(self, vhost: str, mark: str) -> None:
        self._vhost = vhost
        self._mark = mark
        self._received = bytearray()
        self._marks_out: asyncio.Future[None] | None = None
        self._marks_wanted = 0
        self.channels: dict[int, WatchedChannel] = {}
        self.seen: dict[str, list[Any]] = defaultdict(list)
        self.count = 0
        self.gets_without_acks = False
        self.is_open = False
        self.wire: _Wire | None = None
        self._transport: asyncio.Transport | None = None

    # -- the connection

    async def connect(self, port: int) -> None:
        """Log in, and open the channel of marks, none of which counts as seen."""
        seen, self.seen = self.seen, defaultdict(list)
        self.channels = {0: WatchedChannel(0, is_open=True)}
        self._received.clear()
        loop = asyncio.get_running_loop()
        wire = self.wire = _Wire(self)
        self._transport, _ = await loop.create_connection(lambda: wire, "127.0.0.1", port)
        login = commands.Connection.StartOk(
            {"capabilities": CAPABILITIES}, "PLAIN", "\0guest\0guest", "en_US"
        )
        await self._ask(0, PROTOCOL_HEADER)
        await self._ask(0, marshal(0, login))
        tuned = marshal(0, commands.Connection.TuneOk(100, 131_072, 0))
        await self._ask(0, tuned + marshal(0, commands.Connection.Open(self._vhost)))
        assert self._transport is not None, self.seen
        await self.open(MARKS)
        for asked in (
            commands.Queue.Declare(queue=self._mark, durable=True),
            commands.Confirm.Select(),
            commands.Basic.Consume(queue=self._mark, consumer_tag="mark", no_ack=True),
        ):
            answer = await self._ask(MARKS, marshal(MARKS, asked))
            assert answer is not None, dict(self.seen)
        self.seen = seen
        self.is_open = True

    async def open(self, number: int) -> WatchedChannel:
        """The channel of this number, which is opened if it is not."""
        channel = self.channels.get(number)
        if channel is None or not channel.is_open:
            channel = self.channels[number] = WatchedChannel(number, is_open=True)
            await self._ask(number, marshal(number, commands.Channel.Open()))
        return channel

    async def close(self) -> None:
        """Close the connection; what it was answered counts as any answer."""
        if self._transport is not None:
            await self.call(0, commands.Connection.Close(200, "", 0, 0))
        self.drop()

    def drop(self) -> None:
        """End the connection without a word."""
        if self._transport is not None:
            self._transport.abort()
        self._gone()

    def lose(self) -> None:
        """The broker has ended the connection without a word."""
        self._note("0 answers", "lost")
        self._gone()

    def _gone(self) -> None:
        self._transport = self.wire = None
        self.is_open = False
        for channel in self.channels.values():
            self._close(channel)
        if self._marks_out is not None and not self._marks_out.done():
            self._marks_out.set_result(None)

    # -- what it says

    def send(self, content: bytes) -> None:
        """Say this in one write."""
        if self._transport is not None:
            self._transport.write(content)

    async def call(self, number: int, method: base.Frame) -> base.Frame | None:
        """The answer to a method; None: the channel or the connection was closed instead."""
        return await self._ask(number, marshal(number, method))

    async def _ask(self, number: int, content: bytes) -> base.Frame | None:
        channel = self.channels[number]
        if self._transport is None or not channel.is_open:
            return None
        channel.answer = asyncio.get_running_loop().create_future()
        self.send(content)
        return await asyncio.wait_for(channel.answer, WAIT_SECONDS)

    def begin_mark(self) -> None:
        """Publish a message to itself."""
        self._marks_wanted = 2  # the message, and its confirm
        self._marks_out = asyncio.get_running_loop().create_future()
        properties = commands.Basic.Properties(delivery_mode=PERSISTENT)
        method = commands.Basic.Publish(0, "", self._mark)
        self.send(publish(MARKS, method, b"mark", properties))

    async def end_mark(self) -> None:
        """Wait until that has come back, and is confirmed."""
        if self._marks_out is not None:
            await asyncio.wait_for(self._marks_out, WAIT_SECONDS)

    async def confirmed(self, channel: WatchedChannel, seconds: float) -> None:
        """Wait until everything published on a channel is confirmed, refused, or lost."""
        try:
            async with asyncio.timeout(seconds):
                while channel.unconfirmed:  # noqa: ASYNC110 -- sent by the broker
                    await asyncio.sleep(0.001)
        except TimeoutError:
            self._note(f"{channel.number} confirms", b"", "none", sorted(channel.unconfirmed))
            channel.unconfirmed.clear()

    # -- what it is told

    def take(self, data: bytes) -> None:
        """Take what has come."""
        received = self._received
        received += data
        while len(received) >= 7:
            size = int.from_bytes(received[3:7], "big") + 8
            if len(received) < size:
                return
            _, number, frame = pamqp_frame.unmarshal(bytes(received[:size]))
            del received[:size]
            if not isinstance(frame, _PASSED_OVER):
                self._take(self.channels[number], frame)

    def _take(self, channel: WatchedChannel, frame: Any) -> None:
        if isinstance(frame, _CONTENT):
            channel.content = frame
        elif isinstance(frame, header.ContentHeader):
            channel.head = frame
        elif isinstance(frame, body.ContentBody):
            self._message(channel, channel.content, channel.head, frame.value)
        elif channel.number == MARKS and isinstance(frame, commands.Basic.Ack):
            self._count_mark()
        elif isinstance(frame, commands.Basic.Ack | commands.Basic.Nack):
            self._confirm(channel, frame)
        elif isinstance(frame, commands.Basic.Cancel):
            self._note(channel.stream(frame.consumer_tag), "cancelled")
            channel.consumers.pop(frame.consumer_tag, None)
        elif isinstance(frame, commands.Connection.Close | commands.Channel.Close):
            is_all = isinstance(frame, commands.Connection.Close)
            text = frame.reply_text.replace(f"'{self._vhost}'", "VHOST")
            self._note(f"{channel.number} answers", "closed", frame.reply_code, text)
            answer = commands.Connection.CloseOk() if is_all else commands.Channel.CloseOk()
            self.send(marshal(channel.number, answer))
            for each in self.channels.values() if is_all else (channel,):
                # What was not confirmed until then may be confirmed or not.
                self.seen.pop(f"{each.number} confirms", None)
            if is_all:
                self._transport.close()
                self._gone()
            else:
                self._close(channel)
        else:
            self._answer(channel, frame)

    def _answer(self, channel: WatchedChannel, frame: base.Frame) -> None:
        if channel.number not in (0, MARKS):
            self._note(f"{channel.number} answers", frame.name, dict(frame))
        if isinstance(frame, commands.Channel.CloseOk):
            self._close(channel, frame)
        elif channel.answer is not None and not channel.answer.done():
            channel.answer.set_result(frame)

    def _close(self, channel: WatchedChannel, answer: base.Frame | None = None) -> None:
        channel.is_open = False
        channel.consumers.clear()
        channel.held.clear()
        channel.settled.clear()
        channel.unconfirmed.clear()
        if channel.answer is not None and not channel.answer.done():
            channel.answer.set_result(answer)

    def _message(self, channel: WatchedChannel, method: Any, head: Any, octets: bytes) -> None:
        if channel.number == MARKS:
            self._count_mark()
            return
        told = {
            "body": octets,
            "exchange": method.exchange,
            "key": method.routing_key,
            **{name: value for name, value in head.properties if value},
        }
        told["headers"] = _timeless(head.properties.headers or {})
        number = channel.number
        if isinstance(method, commands.Basic.Return):
            channel.returned.add(octets)
            told["why"] = method.reply_code, method.reply_text
            self._note(f"{number} returns", told)
            return
        told["redelivered"] = method.redelivered
        if isinstance(method, commands.Basic.GetOk):
            source, no_ack = GOT, self.gets_without_acks
            told["left"] = method.message_count
            self._note(f"{number} answers", told)
            channel.answer.set_result(method)
        else:
            source = method.consumer_tag
            consumer = channel.consumers.get(source)
            no_ack = consumer is not None and consumer.no_ack
            self._note(channel.stream(source), told)
        if not no_ack:
            channel.held.append(Held(source, octets, method.delivery_tag))

    def _confirm(self, channel: WatchedChannel, frame: Any) -> None:
        last = frame.delivery_tag
        outcome = "ack" if isinstance(frame, commands.Basic.Ack) else "nack"
        tags = [tag for tag in channel.unconfirmed if tag <= last] if frame.multiple else [last]
        for tag in tags:
            octets = channel.unconfirmed.pop(tag, b"?")
            returned = "returned" if octets in channel.returned else ""
            self._note(f"{channel.number} confirms", octets, outcome, returned)

    def _count_mark(self) -> None:
        self._marks_wanted -= 1
        if not self._marks_wanted and not self._marks_out.done():
            self._marks_out.set_result(None)

    def _note(self, stream: str, *event: Any) -> None:
        self.count += 1
        self.seen[stream].append(event if len(event) > 1 else event[0])


def marshal(channel: int, *frames: Any) -> bytes:
    """The octets of frames of a channel."""
    return b"".join(pamqp_frame.marshal(each, channel) for each in frames)


def publish(
    channel: int, method: Any, content: bytes, properties: commands.Basic.Properties
) -> bytes:
    """The frames of a message."""
    head = header.ContentHeader(0, len(content), properties)
    return marshal(channel, method, head, body.ContentBody(content))


def _timeless(value: Any) -> Any:
    """A field without the times of deaths."""
    if isinstance(value, dict):
        return {name: _timeless(each) for name, each in value.items() if name != "time"}
    return [_timeless(each) for each in value] if isinstance(value, list) else value
