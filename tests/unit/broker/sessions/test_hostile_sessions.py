"""Bytes of any kind over the connection of a session, at both ends: it ends, and nothing of it is left."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.queue_samples import Node, Taker, numbered, records, running_node
from support.waiting import until
from unit.broker.sessions.hostile_messages import MESSAGES, call, honest
from unit.broker.sessions.leading_nodes import LEASE_SECONDS
from unit.vhosts.sessions.hand_front import consume_call, declared
from unit.vhosts.sessions.session_pipe import RemoteTaker, ScriptedLeader, session_host

from routelog.broker.sessions.hosted_sessions import HostedSessions, Leadership
from routelog.broker.sessions.session_seeker import Write
from routelog.broker.sessions.session_socket import SessionSocket
from routelog.log_backend import Octets
from routelog.vhosts import ConsumeOptions, Queue, SharedCounts
from routelog.vhosts.sessions import hosted_session
from routelog.vhosts.sessions.hosted_session import HostedSession
from routelog.vhosts.sessions.session_message import (
    MESSAGE_BYTES_MAX,
    OUTBOX_BYTES_MAX,
    Kind,
    SessionMessage,
    batch_pieces,
    message_pieces,
)

MIB = 1024 * 1024
SEEDS, FRONT_SEEDS = range(24), range(96)
Mangle = Callable[[list[bytearray], random.Random], bytes]


def _as_they_are(messages: list[bytearray], chance: random.Random) -> bytes:
    return b"".join(messages)


def _random(messages: list[bytearray], chance: random.Random) -> bytes:
    return chance.randbytes(chance.choice((1, 7, 40, 4_000, 100_000)))


def _cut_off(messages: list[bytearray], chance: random.Random) -> bytes:
    octets = b"".join(messages)
    return octets[: chance.randrange(len(octets))]


def _reordered(messages: list[bytearray], chance: random.Random) -> bytes:
    chance.shuffle(messages)
    return b"".join(messages)


def _changed(messages: list[bytearray], chance: random.Random) -> bytes:
    octets = bytearray(b"".join(messages))
    for _ in range(chance.choice((1, 5, 50))):
        octets[chance.randrange(len(octets))] = chance.randrange(256)
    return bytes(octets)


def _absurd(messages: list[bytearray], chance: random.Random) -> bytes:
    for message in messages:
        if chance.random() < 0.2:
            field = chance.choice((slice(0, 4), slice(8, 12), slice(16, 24), slice(24, 32)))
            size = field.stop - field.start
            number = chance.choice((0, 1, 39, 40, MESSAGE_BYTES_MAX, (1 << 31) - 1, 1 << 31))
            number = chance.choice((number, (1 << (8 * size)) - 1))
            message[field] = number.to_bytes(size, "little")
    return b"".join(messages)


MANGLES = (_as_they_are, _random, _cut_off, _reordered, _changed, _absurd)


class Host:
    """A leader with real queues, which takes sessions over pairs of sockets."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.sessions = HostedSessions(
            Leadership(1, LEASE_SECONDS), self._make, SharedCounts(), list
        )
        self.made: list[HostedSession] = []

    def _make(self, front: str, write: Write, outbox_bytes: Callable[[], int]) -> HostedSession:
        session = HostedSession(session_host(self.node, []), write, front)
        session.outbox_bytes = outbox_bytes
        self.made.append(session)
        return session

    async def connect(self) -> socket.socket:
        """A session's connection; the test is the front."""
        near, far = socket.socketpair()
        near.setblocking(False)
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_connection(asyncio.Protocol, sock=far)
        transport.pause_reading()
        self.sessions.take("front", transport, b"")
        return near

    async def turn(self) -> None:
        """Let what is due be done."""
        self.node.turns.run()
        await asyncio.sleep(0)

    @property
    def is_free(self) -> bool:
        """Whether nothing of a session is left."""
        self.node.turns.run()
        return not (self.sessions._ends or self.sessions._sockets) and all(
            not (each._consumers or each._connections or each._calls or each._gets)
            for each in self.made
        )


@asynccontextmanager
async def hosting(data: Path) -> AsyncIterator[Host]:
    """A host, until the end of the test."""
    async with running_node(data) as node:
        host = Host(node)
        yield host
        host.sessions.close_all("the test is over")
        node.turns.run()


async def sent(host: Host, front: socket.socket, octets: bytes, *, reads: bool = True) -> None:
    """Send, as long as the other end takes it; and read what it says, or nothing."""
    while octets:
        try:
            octets = octets[front.send(octets) :]
        except BlockingIOError:
            pass
        except OSError:
            return
        if reads:
            read(front)
        await host.turn()


def read(front: socket.socket) -> bytes:
    """What has come."""
    try:
        return front.recv(1 << 20)
    except OSError:
        return b""


@pytest.mark.parametrize("mangle", MANGLES)
async def test_a_front_that_sends_anything_leaves_nothing(
    tmp_path: Path, mangle: Mangle, caplog: pytest.LogCaptureFixture
) -> None:
    async with hosting(tmp_path) as host:
        queues = plain, log = (
            await declared(host.node, "plain"),
            await declared(host.node, "log", x_retention="1h"),
        )
        for queue in queues:
            queue.publish(records(*numbered(0, MESSAGES)), waited=False)
        plain.add_consumer(beside := Taker(MESSAGES // 2))
        host.node.turns.run()
        for seed in FRONT_SEEDS:
            chance = random.Random(seed)
            front = await host.connect()
            messages = [bytearray(b"".join(pieces)) for pieces in honest(queues, chance)]
            await sent(host, front, mangle(messages, chance))
            for _ in range(chance.randrange(3)):
                await host.turn()
            front.close()
            await until(lambda: host.is_free)
            assert (plain.unacked, plain.consumers) == (MESSAGES // 2, [beside])
            assert (log.unacked, log.consumer_count) == (0, 0)
            assert all((each.unacked, each.consumers) == (0, []) for each in log.groups.values())
            assert not [each for each in host.node.vhost.queues if each not in ("plain", "log")]
    ours = [each for each in caplog.records if each.levelno >= logging.ERROR]
    assert not [each for each in ours if each.name.startswith("routelog.vhosts.sessions")]


async def test_a_long_message_takes_memory_as_it_comes(tmp_path: Path) -> None:
    async with hosting(tmp_path) as host:
        before = resident_bytes()
        front = await host.connect()
        await sent(host, front, MESSAGE_BYTES_MAX.to_bytes(4, "little") + bytes(100_000))
        assert resident_bytes() - before < 32 * MIB
        front.close()
        await until(lambda: host.is_free)


def resident_bytes() -> int:
    """Memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def bound(queue: Queue, subject: int) -> list[Octets]:
    """The bytes that name a queue."""
    content = msgspec.msgpack.encode(["/", queue.name])
    return message_pieces(
        SessionMessage(Kind.QUEUE, subject=subject, number=queue.number, content=content)
    )


@pytest.mark.parametrize("count", [3, 200])
async def test_a_front_that_does_not_read_costs_16_mib_and_a_message(
    tmp_path: Path, count: int
) -> None:
    async with hosting(tmp_path) as host:
        front, largest = await host.connect(), MIB
        pieces: list[Octets] = []
        body = bytes(largest // 2)
        for number in range(count):
            queue = await declared(host.node, f"q{number}")
            for _ in range(3):
                queue.publish(records(body), waited=False)
            wanted = consume_call(consumer=count + number + 1, no_ack=number % 2 == 0)
            pieces += [*bound(queue, number + 1), *call(number + 1, "consume", [wanted])]
        await sent(host, front, b"".join(pieces), reads=False)
        most = 0
        for _ in range(300):
            await host.turn()
            most = max(most, host.made[0].outbox_bytes())
        assert most <= OUTBOX_BYTES_MAX + largest + MIB
        assert (most > OUTBOX_BYTES_MAX) == (count > 3)
        front.close()
        await until(lambda: host.is_free)


async def test_a_front_that_calls_and_does_not_read_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = 2 * MIB  # small answers of 32 MiB would be a million
    monkeypatch.setattr(hosted_session, "OUTBOX_BYTES_MAX", limit)
    async with hosting(tmp_path) as host:
        queue = await declared(host.node, "q")
        front = await host.connect()
        asked = b"".join(call(1, "counts", [])) * 10_000
        await sent(host, front, b"".join(bound(queue, 1)), reads=False)
        most = 0
        while host.sessions._ends:
            await sent(host, front, asked, reads=False)
            most = max(most, host.made[0].outbox_bytes())
        assert most <= 2 * limit + MIB
        front.close()
        await until(lambda: host.is_free)


# -- a leader that sends anything


def leader_messages(chance: random.Random) -> list[bytearray]:
    """Messages as a leader may send them, to a front with two consumers."""
    messages: list[Sequence[Octets]] = []
    for number in range(1, 20):
        kind = chance.choice(
            (Kind.CONFIRM, Kind.DELIVER, Kind.ANSWER, Kind.APPLY, Kind.BEAT, Kind.ENDED)
        )
        if kind is Kind.DELIVER:
            head = SessionMessage(kind, subject=chance.choice((2, 4)), first=number, count=2)
            messages.append(batch_pieces(head, records("a", "b")))
        else:
            content = msgspec.msgpack.encode(chance.choice((None, 3, [1, 2], [0], "text")))
            messages.append(
                message_pieces(
                    SessionMessage(
                        kind,
                        subject=chance.choice((2, 4)),
                        number=chance.choice((1, number)),
                        first=chance.choice((0, 1, number)),
                        content=content if kind in (Kind.ANSWER, Kind.ENDED) else b"",
                    )
                )
            )
    return [bytearray(b"".join(each)) for each in messages]


@pytest.mark.parametrize("mangle", MANGLES)
async def test_a_leader_that_sends_anything_leaves_nothing(mangle: Mangle) -> None:
    for seed in SEEDS:
        await _hostile_leader(random.Random(seed), mangle)


async def _hostile_leader(chance: random.Random, mangle: Mangle) -> None:
    scripted = ScriptedLeader()
    session = scripted.link.session
    loop = asyncio.get_running_loop()
    near, far = socket.socketpair()
    far.setblocking(False)
    transport, _ = await loop.create_connection(asyncio.Protocol, sock=near)
    transport.pause_reading()
    over: list[str] = []

    def ended(reason: str) -> None:
        over.append(reason)
        session.lost(reason)

    front = SessionSocket(transport, "leader", LEASE_SECONDS, loop.call_later, ended)
    front.end = session
    front.begin(b"")
    scripted.link.open(front.write, 1)
    queue = scripted.queue()
    takers = [RemoteTaker(), RemoteTaker(3)]
    waiting: list[asyncio.Future[Any]] = [
        queue.attach(each, ConsumeOptions(), each.begin) for each in takers
    ]
    waiting += [queue.get(), queue.purge(), queue.counts()]
    queue.publish(records("a"), True)
    octets = mangle(leader_messages(chance), chance)
    while octets and not over:
        try:
            octets = octets[far.send(octets[:65_536]) :]
        except BlockingIOError:
            pass
        except OSError:
            break
        scripted.turns.run()
        await asyncio.sleep(0)
    far.close()
    await until(lambda: over)
    scripted.turns.run()
    left = session._calls, session._consumers, session._outcomes, session._sizes
    assert not any(left)
    for each in waiting[2:]:
        assert each.done()
        each.exception()
    for taker in takers:  # they wait for the next leader, or were told
        queue.detach([taker])
    scripted.link.give_up("nobody leads")
    scripted.link.end("the test is over")
    for each in waiting:
        if each.done():
            each.exception()
