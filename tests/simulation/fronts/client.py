"""A client of AMQP 0-9-1 in an event loop of its own: one connection, with one channel."""

import asyncio
from collections.abc import Callable
from typing import Any

from pamqp import body, commands, header
from pamqp import frame as pamqp_frame
from simulation.fronts.wire import CLIENTS
from simulation.loop import Loop

PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
TOO_FEW = "too few nodes have stored it"
PERSISTENT = commands.Basic.Properties(delivery_mode=2)
TRANSIENT = commands.Basic.Properties()
CAPABILITIES = {
    "authentication_failure_close": True,
    "consumer_cancel_notify": True,
    "connection.blocked": True,
}
_LOGIN = commands.Connection.StartOk(
    {"capabilities": CAPABILITIES}, "PLAIN", "\0guest\0guest", "en_US"
)
_TUNE_OK = commands.Connection.TuneOk(channel_max=10, frame_max=131_072, heartbeat=0)
_LOCAL = (
    commands.Connection.Blocked,
    commands.Connection.Unblocked,
)


class Gone(Exception):
    """The connection has ended."""


class Refused(Exception):
    """The channel is closed by the broker.

    Attributes:
        code: of the reply.
    """

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code} {text}")
        self.code = code


class Machine:
    """Where all clients run (`Host`)."""

    is_there = True
    says_so = True
    is_paused = False

    def __init__(self, seconds: Callable[[], float], after: Callable[..., object]) -> None:
        self.name = CLIENTS
        self.loop = Loop(seconds)
        self._seconds = seconds
        self._after = after
        self._wakes_at = float("inf")
        self._is_turning = False

    def enter(self, call: Callable[..., object], *arguments: Any) -> None:
        """See `Host`."""
        self.loop.call_soon(call, *arguments)
        self.turn()

    def turn(self) -> None:
        """Let clients do all that they can do now."""
        loop = self.loop
        loop.settle()
        if loop.errors:
            raise loop.errors[0]
        when = loop.next_timer()
        if when is not None and when < self._wakes_at:
            self._wakes_at = when
            self._after(max(0.0, when - self._seconds()), self._wake, when)

    def _wake(self, when: float) -> None:
        if when == self._wakes_at:  # else another one has come before it
            self._wakes_at = float("inf")
            self.turn()


class Publish:
    """A message that was published.

    Attributes:
        outcome: done with True: confirmed, or False: refused, or None: nobody knows.
        is_returned: before its outcome.
    """

    __slots__ = ("body", "is_returned", "outcome")

    def __init__(self, octets: bytes, loop: asyncio.AbstractEventLoop) -> None:
        self.body = octets
        self.outcome: asyncio.Future[bool | None] = loop.create_future()
        self.is_returned = False


class Delivered:
    """A message that has come.

    Attributes:
        session: that it came over; for who knows.
    """

    __slots__ = ("body", "redelivered", "session", "tag")

    def __init__(self, method: Any, octets: bytes) -> None:
        self.tag: int = method.delivery_tag
        self.redelivered: bool = method.redelivered
        self.body = octets
        self.session: object = None


class Client(asyncio.Protocol):
    """A connection with a broker.

    Args:
        wrong: told what a broker must not do.

    Attributes:
        on_delivery: takes what comes to its consumer.
        on_cancelled: told that the broker has cancelled its consumer.
        is_open: the channel is.
    """

    _end: Any

    def __init__(self, wrong: Callable[[str], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._wrong = wrong
        self._received = bytearray()
        self._answers: list[tuple[tuple[type[Any], ...], asyncio.Future[Any]]] = []
        self._content: tuple[Any, bytearray, int] | None = None
        self._unconfirmed: dict[int, Publish] = {}
        self._published = 0
        self.is_open = self.is_gone = False
        self.on_delivery: Callable[[Delivered], None] = lambda delivered: None
        self.on_cancelled: Callable[[], None] = lambda: None

    def connection_made(self, transport: Any) -> None:
        """See `asyncio.Protocol`."""
        self._end = transport

    # -- its life

    async def begin(self) -> None:
        """Log in, and open a channel."""
        self._end.write(PROTOCOL_HEADER)
        await self._awaited(commands.Connection.Start)
        self._send(_LOGIN, 0)
        await self._awaited(commands.Connection.Tune)
        self._send(_TUNE_OK, 0)
        self._send(commands.Connection.Open("/"), 0)
        await self._awaited(commands.Connection.OpenOk)
        await self.open_channel()

    async def open_channel(self) -> None:
        """Open a channel, with confirms."""
        self._published = 0
        await self.call(commands.Channel.Open(), commands.Channel.OpenOk)
        self.is_open = True

    async def confirms(self) -> None:
        """Have publishes confirmed."""
        await self.call(commands.Confirm.Select(), commands.Confirm.SelectOk)

    async def close_channel(self) -> None:
        """Close the channel."""
        self.is_open = False
        await self.call(commands.Channel.Close(200, "", 0, 0), commands.Channel.CloseOk)
        self._lose_channel(Refused(200, "closed"))

    async def close(self) -> None:
        """Close the connection."""
        if not self.is_gone:
            self.is_open = False
            self._send(commands.Connection.Close(200, "", 0, 0), 0)
            await self._awaited(commands.Connection.CloseOk)
            self._end.close()
            self.connection_lost(None)

    def drop(self) -> None:
        """End the connection without a word."""
        self._end.abort()
        self.connection_lost(None)

    @property
    def waits(self) -> bool:
        """Whether an answer is to come."""
        return bool(self._answers or self._unconfirmed)

    @property
    def awaits(self) -> str:
        """What it waits for, in words."""
        answers = [each[0].name for each, _ in self._answers]
        return f"{answers}, confirms of {[*self._unconfirmed]}"

    # -- what it sends

    def _send(self, frame: Any, channel: int = 1) -> None:
        self._end.write(pamqp_frame.marshal(frame, channel))

    async def call(self, method: Any, *answers: type[Any]) -> Any:
        """Call a method, and await one of these answers; that of basic.get is a `Delivered`.

        Raises:
            Gone: the connection has ended.
            Refused: the broker has closed the channel.
        """
        if self.is_gone:
            raise Gone
        self._send(method)
        return await self._awaited(*answers)

    async def _awaited(self, *answers: type[Any]) -> Any:
        if self.is_gone:
            raise Gone
        answer = self._loop.create_future()
        self._answers.append((answers, answer))
        return await answer

    def publish(
        self, exchange: str, key: str, octets: bytes, *, mandatory: bool, persistent: bool = True
    ) -> Publish:
        """Publish a message."""
        published = Publish(octets, self._loop)
        if self.is_gone or not self.is_open:
            published.outcome.set_result(None)
            return published
        self._published += 1
        self._unconfirmed[self._published] = published
        properties = PERSISTENT if persistent else TRANSIENT
        method = commands.Basic.Publish(exchange=exchange, routing_key=key, mandatory=mandatory)
        self._end.write(
            pamqp_frame.marshal(method, 1)
            + pamqp_frame.marshal(header.ContentHeader(0, len(octets), properties), 1)
            + pamqp_frame.marshal(body.ContentBody(octets), 1)
        )
        return published

    def forget_publishes(self) -> None:
        """In a transaction: they are not confirmed one by one."""
        self._unconfirmed.clear()

    def settle(self, tag: int, *, ack: bool = True, requeue: bool = True) -> None:
        """Settle a delivery."""
        if self.is_open and not self.is_gone:
            if ack:
                self._send(commands.Basic.Ack(tag))
            else:
                self._send(commands.Basic.Nack(tag, requeue=requeue))

    # -- what comes

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        self._received += data
        received = self._received
        while len(received) >= 8 and not self.is_gone:
            size = 8 + int.from_bytes(received[3:7])
            if len(received) < size:
                return
            octets = bytes(received[:size])
            del received[:size]
            _, channel, frame = pamqp_frame.unmarshal(octets)
            self._frame(channel, frame)

    def _frame(self, channel: int, frame: Any) -> None:
        match frame:
            case commands.Basic.Deliver() | commands.Basic.Return() | commands.Basic.GetOk():
                self._content = frame, bytearray(), -1
            case header.ContentHeader():
                assert self._content is not None
                self._content = self._content[0], bytearray(), frame.body_size
                self._take_content()
            case body.ContentBody():
                assert self._content is not None
                self._content[1].extend(frame.value)
                self._take_content()
            case commands.Basic.Ack():
                self._confirmed(frame.delivery_tag, frame.multiple, True)
            case commands.Basic.Nack():
                self._confirmed(frame.delivery_tag, frame.multiple, False)
            case commands.Basic.Cancel():
                self.on_cancelled()
            case commands.Channel.Close():
                self.is_open = False
                self._send(commands.Channel.CloseOk())
                self._lose_channel(Refused(frame.reply_code, frame.reply_text))
            case commands.Connection.Close():
                self._send(commands.Connection.CloseOk(), 0)
                if not (frame.reply_code in (200, 320) or TOO_FEW in frame.reply_text):
                    self._wrong(f"the broker closes a connection: {frame.reply_text}")
                self._end.close()
                self.connection_lost(None)
            case _ if isinstance(frame, _LOCAL):
                pass
            case _:
                self._answer(frame)

    def _answer(self, frame: Any, value: object = None) -> None:
        if not self._answers:
            return self._wrong(f"{type(frame).__name__} answers nothing")
        answers, answer = self._answers.pop(0)
        if not isinstance(frame, answers):
            return self._wrong(f"{frame.name} in the place of {answers[0].name}")
        if not answer.done():
            answer.set_result(value or frame)

    def _take_content(self) -> None:
        assert self._content is not None
        method, octets, size = self._content
        if len(octets) < size:
            return
        self._content = None
        whole = bytes(octets)
        if isinstance(method, commands.Basic.Deliver):
            # A close has gone out: what was on its way is discarded, and may have come again elsewhere.
            if self.is_open:
                self.on_delivery(Delivered(method, whole))
        elif isinstance(method, commands.Basic.GetOk):
            self._answer(method, Delivered(method, whole))
        else:
            found = [each for each in self._unconfirmed.values() if each.body == whole]
            for each in found:
                each.is_returned = True
            if not found:
                self._wrong(f"{whole!r} is returned behind its confirm")

    def _confirmed(self, tag: int, multiple: bool, is_ack: bool) -> None:
        first = next(iter(self._unconfirmed), None)
        if first is None or tag < first or not (multiple or tag == first):
            return self._wrong(f"confirm {tag}, {multiple}: awaited is {first}")
        for each in [each for each in self._unconfirmed if each <= tag]:
            self._unconfirmed.pop(each).outcome.set_result(is_ack)

    def _lose_channel(self, error: Exception) -> None:
        unconfirmed, self._unconfirmed = self._unconfirmed, {}
        for each in unconfirmed.values():
            each.outcome.set_result(None)
        answers, self._answers = self._answers, []
        for _, answer in answers:
            if not answer.done():
                answer.set_exception(error)

    def connection_lost(self, error: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        if not self.is_gone:
            self.is_gone = True
            self.is_open = False
            self._lose_channel(Gone())

    def eof_received(self) -> bool:
        """See `asyncio.Protocol`."""
        return False

    def pause_writing(self) -> None:
        """See `asyncio.Protocol`."""

    def resume_writing(self) -> None:
        """See `asyncio.Protocol`."""
