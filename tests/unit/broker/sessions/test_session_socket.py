"""A session's connection: messages of a turn go as one, and silence or a fault of the peer ends it."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from support.waiting import until

from routelog.broker.sessions.session_socket import BEAT_SHARE, SessionSocket
from routelog.log_backend import Timer
from routelog.vhosts.sessions.session_message import (
    BadSessionMessage,
    Kind,
    SessionMessage,
    message_pieces,
)

WAIT_SECONDS_MAX = 30


class FakeTimers:
    """Timers that ring when a test says so."""

    def __init__(self) -> None:
        self.due: list[Callable[[], object]] = []

    def call_later(self, seconds: float, call: Callable[..., object], *given: object) -> Timer:
        self.due.append(call)
        return FakeTimer()

    def ring(self) -> None:
        due, self.due = self.due, []
        for call in due:
            call()


class FakeTimer:
    def cancel(self) -> None:
        pass


class End:
    """Notes what comes."""

    def __init__(self) -> None:
        self.messages: list[SessionMessage] = []
        self.came = asyncio.Event()

    def received(self, message: SessionMessage) -> None:
        if message.kind is Kind.OPENED:
            raise BadSessionMessage("not twice")
        self.messages.append(message)
        self.came.set()


class Side:
    """One end of a connection."""

    def __init__(self) -> None:
        self.end = End()
        self.timers = FakeTimers()
        self.over: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.stamp = 0
        self.answered: list[tuple[int, int]] = []
        self.age = 0

    async def open(self, handle: socket.socket, peer: str) -> None:
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_connection(asyncio.Protocol, sock=handle)
        transport.pause_reading()
        self.socket = SessionSocket(
            transport,
            peer,
            1.6,
            self.timers.call_later,
            self.over.set_result,
            stamp=lambda: self.stamp,
            answered=lambda number, age: self.answered.append((number, age)),
            age=lambda: self.age,
        )
        self.socket.end = self.end
        self.socket.begin(b"")

    async def came(self, count: int) -> list[SessionMessage]:
        async with asyncio.timeout(WAIT_SECONDS_MAX):
            while len(self.end.messages) < count:
                self.end.came.clear()
                await self.end.came.wait()
        return self.end.messages

    async def ended(self) -> str:
        async with asyncio.timeout(WAIT_SECONDS_MAX):
            return await self.over


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[Side, Side]]:
    near, far = Side(), Side()
    here, there = socket.socketpair()
    await near.open(here, "b")
    await far.open(there, "a")
    yield near, far
    for side in (near, far):
        side.socket.close("the test is over")


async def test_messages_of_several_turns_come_whole_and_in_order() -> None:
    async with connected() as (near, far):
        sent = [SessionMessage(Kind.CALL, number=n, content=b"x" * n * 997) for n in range(1, 60)]
        for message in sent:
            near.socket.write(message_pieces(message))
            if message.number % 7 == 0:
                await asyncio.sleep(0)
        assert await far.came(len(sent)) == sent


async def test_what_was_written_in_this_turn_is_unsent() -> None:
    async with connected() as (near, far):
        written = message_pieces(SessionMessage(Kind.CALL, content=bytes(100)))
        for count in (1, 2):
            near.socket.write(written)
            assert near.socket.outbox_bytes == count * sum(map(len, written))
        await far.came(2)
        assert near.socket.outbox_bytes == 0


async def test_a_silent_peer_ends_the_session_and_one_that_beats_does_not() -> None:
    async with connected() as (near, far):
        for _ in range(3 * BEAT_SHARE):
            far.timers.ring()  # its beat
            far.socket.write(message_pieces(SessionMessage(Kind.APPLIED)))
            before = len(near.end.messages)
            await near.came(before + 1)
            near.timers.ring()
        assert not near.over.done()
        for _ in range(BEAT_SHARE + 1):
            near.timers.ring()
        assert await near.ended() == "node b is silent"
        assert near.socket.is_silent
        assert not far.socket.is_silent
        assert "has ended" in await far.ended()


async def test_a_beat_with_a_number_is_answered() -> None:
    async with connected() as (near, far):
        near.stamp, far.age = 17, 5
        near.socket.write(message_pieces(SessionMessage(Kind.APPLIED)))
        near.timers.ring()  # though it has sent something
        await far.came(1)
        await until(lambda: near.answered)
        assert near.answered == [(17, 5)]
        assert far.answered == []


async def test_a_fault_of_the_peer_ends_the_session(caplog: pytest.LogCaptureFixture) -> None:
    async with connected() as (near, far):
        far.socket.write(message_pieces(SessionMessage(Kind.OPENED)))
        assert await near.ended() == "node b sent what is no message: not twice"
        assert "the session with node b ends: not twice" in caplog.text


async def test_bytes_that_are_no_message_end_the_session() -> None:
    async with connected() as (near, far):
        far.socket.write([b"\xff" * 100])
        assert "what is no message: a message of" in await near.ended()


async def test_nothing_is_taken_or_sent_behind_the_end() -> None:
    async with connected() as (near, far):
        far.socket.write(message_pieces(SessionMessage(Kind.APPLIED)))
        near.socket.close("enough")
        near.socket.close("again")
        near.socket.write(message_pieces(SessionMessage(Kind.APPLIED)))
        assert await near.ended() == "enough"
        await far.ended()
        assert not near.end.messages
        assert not far.end.messages
