"""A session in memory: messages go over as bytes, cut at random places."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import msgspec
from support.queue_samples import Node, Taker, Turns

from routelog.amqp_front.transactions.hosted_commits import HostedCommits
from routelog.log_backend import Durability, Octets, Records
from routelog.vhosts import CREDIT_UNLIMITED, Delivery, Queue, QueueProperties
from routelog.vhosts.counters.counters import ChangedCounters, MessageCounters
from routelog.vhosts.sessions.front_session import FrontSession
from routelog.vhosts.sessions.hosted_session import HostedSession, SessionHost
from routelog.vhosts.sessions.leader_link import LeaderLink
from routelog.vhosts.sessions.remote_queue import RemoteQueue
from routelog.vhosts.sessions.session_errors import encode_error
from routelog.vhosts.sessions.session_message import (
    COUNTED,
    FAILED,
    REDELIVERED,
    Kind,
    SessionMessage,
    batch_pieces,
    decode_message,
    message_pieces,
)


class OneWay:
    """One direction of a connection.

    Attributes:
        received: takes what has come over.
    """

    def __init__(self, random: Random) -> None:
        self._random = random
        self._sent = bytearray()
        self._come = bytearray()
        self.received: Callable[[SessionMessage], object] = lambda message: None

    def write(self, pieces: Sequence[Octets]) -> None:
        """Send pieces of messages."""
        self._sent += b"".join(pieces)

    def carry(self, *, whole: bool = True) -> bool:
        """Carry over some of what was sent, or all; returns whether there was any."""
        has_some = bool(self._sent)
        while self._sent:
            cut = self._random.randint(1, len(self._sent))
            self._come += self._sent[:cut]
            del self._sent[:cut]
            self._decode()
            if not whole:
                break
        return has_some

    def _decode(self) -> None:
        at, come = 0, self._come
        while (decoded := decode_message(bytearray(come), at, len(come))) is not None:
            message, size = decoded
            at += size
            self.received(message)
        self._come = come[at:]


class RemoteTaker(Taker):
    """A consumer with a prefetch count (0: no limit) that may be served by way of a session.

    Attributes:
        counts: how often each message was delivered again.
    """

    def __init__(self, prefetch: int = 0, **options: Any) -> None:
        super().__init__(prefetch or None, **options)
        self.prefetch: int = prefetch
        self.lapsed = 0
        self.is_stalled = False
        self.counts: list[int] = []
        self.queue: Any = None
        self.source: Any = None

    def credit(self) -> int:
        """See `Consumer`."""
        if self.is_stalled:
            return 0
        return self.prefetch - self.unacked if self.prefetch else CREDIT_UNLIMITED

    def deliver(self, delivery: Delivery) -> None:
        """See `Consumer`."""
        super().deliver(delivery)
        offsets = range(delivery.offset, delivery.offset + delivery.count)
        self.counts += map(delivery.partition.delivery_count, offsets)

    def begin(self, source: Any) -> None:
        """See `QueueHandle.attach`."""
        self.source = source

    def has_credit(self) -> None:
        """It has room again."""
        self.source.has_credit(self)


class ScriptedLeader:
    """A front whose leader is the test: it takes messages, and sends what it is told to.

    Attributes:
        link: of the front.
        session: that is open.
        taken: messages that the test has not looked at.
        turns: of the front.
    """

    def __init__(self) -> None:
        self.turns = Turns()
        self.link = LeaderLink(self._make)
        self.taken: list[SessionMessage] = []
        self.sessions = 0

    def _make(self, replace: Callable[[], None]) -> FrontSession:
        return FrontSession(self.turns.call_soon, self.turns.clock.monotonic, replace)

    def open(self) -> FrontSession:
        """Open the next session."""
        random = Random(self.sessions)
        self.sessions += 1
        self.to_leader, self.to_front = OneWay(random), OneWay(random)
        self.to_leader.received = self.taken.append
        self.session = self.link.open(self.to_leader.write, self.sessions)
        self.to_front.received = self.session.received
        return self.session

    def said(self) -> list[SessionMessage]:
        """What the front has sent, turns that are due included."""
        self.turns.run()
        self.to_leader.carry()
        taken, self.taken = self.taken, []
        if not self.session.is_open:
            return taken
        self.to_leader.received = self.taken.append
        return taken

    async def asked(self) -> SessionMessage:
        """The call that the front has sent."""
        await settled_down()
        (call,) = self.said()
        return call

    async def tells_all(self) -> None:
        """Answer the front that everything that others were told has been told to it."""
        call = await self.asked()
        assert call_of(call) == ["carried_out"]
        self.answers(call, None)

    def says(self, kind: Kind, content: bytes = b"", **values: int) -> None:
        """Send a message to the front."""
        self.to_front.write(message_pieces(SessionMessage(kind, content=content, **values)))
        self.to_front.carry()

    def answers(self, call: SessionMessage, value: object) -> None:
        """Answer a call."""
        if isinstance(value, Exception):
            self.says(Kind.ANSWER, encode_error(value), flags=FAILED, number=call.number)
        else:
            self.says(Kind.ANSWER, msgspec.msgpack.encode(value), number=call.number)

    def delivers(
        self,
        subject: int,
        offset: int,
        records: Records,
        partition: int = 0,
        counts: Sequence[int] | None = None,
        *,
        redelivered: bool = False,
    ) -> None:
        """Deliver messages to a consumer."""
        flags = REDELIVERED * (redelivered or counts is not None) | COUNTED * (counts is not None)
        content = b"".join(count.to_bytes(4, "little") for count in counts or ())
        message = SessionMessage(
            Kind.DELIVER,
            flags,
            partition,
            subject,
            first=offset,
            count=records.count,
            content=content,
        )
        self.to_front.write(batch_pieces(message, records))
        self.to_front.carry()

    def queue(self, *partitions: int, **arguments: object) -> RemoteQueue:
        """A remote queue `q`, with numbers of its partitions, and arguments without their `x-`."""
        named = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
        properties = QueueProperties("q", durable=True, arguments=named)
        counters = MessageCounters(ChangedCounters())
        numbers = partitions or (7,)
        return RemoteQueue("/", properties, numbers, self.link, counters, Durability.DISK)


def session_host(node: Node, replies: list[tuple[bytes, bytes]]) -> SessionHost:
    """What sessions need of a node; direct replies come to a list."""
    scheduler, progress = node.turns.scheduler, node.logs.progress
    services: Any = SimpleNamespace(
        loop=node.turns, scheduler=scheduler, progress=progress, settlings=deque()
    )
    return SessionHost(
        node.vhosts,
        progress,
        scheduler,
        lambda address, records: replies.append((address, records.body(0))),
        lambda address: address == b"open",
        HostedCommits(services),
        node.logs.clock.now,
        lambda done: done,
    )


class PipedFront:
    """A front of a real node, in its process: both ends of a session, and the way between them.

    Attributes:
        link: of the front.
        hosted: the leader's end of the session that is open.
        refusals: why sessions were ended by the other end.
        replies: addresses and bodies of direct replies that have come to the leader.
    """

    def __init__(self, node: Node, seed: int = 0) -> None:
        self._node = node
        self._random = Random(seed)
        self.link = LeaderLink(self._make)
        self.refusals: list[str] = []
        self.replies: list[tuple[bytes, bytes]] = []
        self.is_whole = True  # all that was sent goes over in a turn
        self.open()

    def _make(self, replace: Callable[[], None]) -> FrontSession:
        turns = self._node.turns
        return FrontSession(turns.call_soon, turns.clock.monotonic, replace)

    def open(self) -> None:
        """Open the next session."""
        self._to_leader, self._to_front = OneWay(self._random), OneWay(self._random)
        node = self._node
        host = session_host(node, self.replies)
        self.hosted = HostedSession(host, self._to_front.write, "front")
        self.hosted.on_failed = self.refusals.append
        self._to_leader.received = self.hosted.received
        self.session = self.link.open(self._to_leader.write, 1)
        self._to_front.received = self.session.received

    def cut(self) -> None:
        """The connection ends; what is on the way is lost."""
        self._to_leader, self._to_front = OneWay(self._random), OneWay(self._random)
        self.session.lost("cut")
        self.hosted.closed()

    def queue(self, queue: Queue) -> RemoteQueue:
        """The front's handle of a queue of the node."""
        numbers = [partition.log.number for partition in queue.partitions]
        counters = MessageCounters(ChangedCounters())
        durability = Durability.DISK
        return RemoteQueue("/", queue.properties, numbers, self.link, counters, durability)

    def carry(self) -> bool:
        """Carry over some of what was sent, or all; returns whether there was any."""
        came = self._to_leader.carry(whole=self.is_whole)
        return self._to_front.carry(whole=self.is_whole) or came


def call_of(message: SessionMessage) -> list[Any]:
    """The method and arguments of a CALL."""
    assert message.kind is Kind.CALL
    return cast("list[Any]", msgspec.msgpack.decode(message.content))


async def settled_down() -> None:
    """Let tasks run that wait for what is there."""
    for _ in range(5):
        await asyncio.sleep(0)
