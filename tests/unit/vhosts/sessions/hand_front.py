"""The leader's end of a session on a real node; the test is its front, message by message."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from support.queue_samples import Node, declare_queue, records
from support.waiting import until
from unit.vhosts.sessions.session_pipe import session_host

from routelog.log_backend import Octets, Reason, Records
from routelog.vhosts import Queue, QueueProperties, ReturnReason
from routelog.vhosts.sessions.hosted_session import HostedSession
from routelog.vhosts.sessions.session_errors import decode_error
from routelog.vhosts.sessions.session_message import (
    ASKED,
    COUNTED,
    FAILED,
    MORE,
    REDELIVERED,
    WAITED,
    Kind,
    SessionMessage,
    batch_pieces,
    decode_message,
    records_of,
)

ACTOR = ["guest", "127.0.0.1:5", "AMQP 0-9-1"]


class Delivered(msgspec.Struct, frozen=True):
    """A DELIVER."""

    consumer: int
    partition: int
    offset: int
    bodies: tuple[str, ...]
    redelivered: bool
    counts: tuple[int, ...]

    @property
    def end(self) -> int:
        """Behind the last message."""
        return self.offset + len(self.bodies)


class HandFront:
    """A front that sends what the test says, and keeps what it is told.

    Attributes:
        session: the leader's end.
        told: messages that the test has not taken.
        on_told: called with each one.
        outbox: unsent bytes, as the transport says.
        confirmed: what the last CONFIRM said: written, durable.
        failures: why the leader ended the session.
        replies: addresses and bodies of direct replies that have come to the leader.
    """

    def __init__(self, node: Node, name: str = "front") -> None:
        self._node = node
        self.replies: list[tuple[bytes, bytes]] = []
        self.session = HostedSession(session_host(node, self.replies), self._written, name)
        self.outbox = 0
        self.session.outbox_bytes = lambda: self.outbox
        self.failures: list[str] = []
        self.session.on_failed = self._failed
        self.told: list[SessionMessage] = []
        self.on_told: Callable[[SessionMessage], None] = lambda message: None
        self.confirmed = 0, 0
        self.confirms = 0
        self._subjects = self._batches = self._calls = 0

    def _written(self, pieces: Sequence[Octets]) -> None:
        octets = bytearray(b"".join(pieces))
        at = 0
        while (decoded := decode_message(octets, at, len(octets))) is not None:
            message, size = decoded
            at += size
            if message.kind is Kind.CONFIRM:
                self.confirmed = message.number, message.first
                self.confirms += 1
            self.told.append(message)
            self.on_told(message)
        assert at == len(octets)

    def _failed(self, reason: str) -> None:
        self.failures.append(reason)
        self.session.closed()

    def close(self) -> None:
        """The session ends, and its turns."""
        self.session.closed()
        self._node.turns.run()

    # -- what it sends

    def send(self, kind: Kind, **fields: Any) -> None:
        """A message."""
        self.session.received(SessionMessage(kind, **fields))

    def subject(self) -> int:
        """A number for a queue or consumer."""
        self._subjects += 1
        return self._subjects

    def bind(self, queue: Queue) -> int:
        """Name a queue."""
        subject = self.subject()
        content = msgspec.msgpack.encode([queue.vhost, queue.name])
        self.send(Kind.QUEUE, subject=subject, number=queue.number, content=content)
        return subject

    def publish(
        self, subject: int, *bodies: str | bytes, persistent: bool = True, asked: bool = False
    ) -> int:
        """A batch; returns its number."""
        return self.publish_records(subject, records(*bodies, persistent=persistent), asked=asked)

    def publish_records(
        self, subject: int, batch: Records, *, waited: bool = True, asked: bool = False
    ) -> int:
        """A batch; returns its number."""
        self._batches += 1
        flags = WAITED * waited | ASKED * asked
        head = SessionMessage(Kind.PUBLISH, flags, subject=subject, number=self._batches)
        self._deliver(batch_pieces(head, batch))
        return self._batches

    def _deliver(self, pieces: Sequence[Octets]) -> None:
        octets = bytearray(b"".join(pieces))
        decoded = decode_message(octets, 0, len(octets))
        assert decoded is not None
        self.session.received(decoded[0])

    def consume(self, subject: int, **keywords: Any) -> int:
        """Consume from a queue; returns the number of the consumer."""
        consumer = keywords.setdefault("consumer", self.subject())
        self.call("consume", consume_call(**keywords), subject=subject)
        return int(consumer)

    def call(self, method: str, *arguments: object, subject: int = 0) -> int:
        """Call a method; returns the number of the call."""
        self._calls += 1
        content = msgspec.msgpack.encode([method, *arguments])
        self.send(Kind.CALL, subject=subject, number=self._calls, content=content)
        return self._calls

    def define(self, method: str, connection: int = 1, **keywords: Any) -> int:
        """Call a method of the vhost `/`."""
        return self.call(method, "/", ACTOR, connection, keywords)

    def settle(
        self,
        source: int,
        first: int,
        end: int,
        reason: Reason = Reason.ACKED,
        partition: int = 0,
    ) -> None:
        """Settle messages."""
        fields = {"partition": partition, "subject": source, "first": first}
        self.send(Kind.SETTLE, flags=int(reason), count=end - first, **fields)

    def give_back(
        self,
        source: int,
        first: int,
        end: int,
        reason: ReturnReason = ReturnReason.RETURNED,
        *,
        more: bool = False,
        partition: int = 0,
    ) -> None:
        """Return messages."""
        flags = reason.value | (MORE if more else 0)
        fields = {"partition": partition, "subject": source, "first": first}
        self.send(Kind.RETURN, flags=flags, count=end - first, **fields)

    def handed_on(self, consumer: int, messages: int) -> None:
        """Credit for messages that the client has."""
        self.send(Kind.CREDIT, subject=consumer, first=messages)

    def wanted(self, **keywords: Any) -> dict[str, Any]:
        """The keywords of `consume`."""
        return consume_call(**keywords)

    def records_of(self, message: SessionMessage) -> Records:
        """The batch of a DELIVER without counts."""
        return records_of(message.content)

    # -- what it is told

    def run(self) -> None:
        """Run the turns of the node's scheduler."""
        self._node.turns.run()

    def take(self, kind: Kind) -> list[SessionMessage]:
        """The messages of a kind since the last call."""
        taken = [message for message in self.told if message.kind is kind]
        self.told = [message for message in self.told if message.kind is not kind]
        return taken

    def deliveries(self) -> list[Delivered]:
        """The deliveries since the last call, after all turns."""
        self.run()
        return [delivered(message) for message in self.take(Kind.DELIVER)]

    def bodies(self) -> list[str]:
        """The bodies of `deliveries`."""
        return [body for each in self.deliveries() for body in each.bodies]

    def ended(self) -> list[tuple[int, Exception | None]]:
        """The consumers that have ended since the last call, with the errors."""
        return [
            (message.subject, None if (value := decoded(message)) is None else decode_error(value))
            for message in self.take(Kind.ENDED)
        ]

    def answer(self, number: int) -> Any:
        """The answer of a call; raises its error."""
        (message,) = [m for m in self.told if m.kind is Kind.ANSWER and m.number == number]
        self.told.remove(message)
        if message.flags & FAILED:
            raise decode_error(decoded(message))
        return decoded(message)

    def has_answer(self, number: int) -> bool:
        """Whether a call was answered."""
        return any(m.kind is Kind.ANSWER and m.number == number for m in self.told)

    async def answered(self, number: int) -> Any:
        """The answer of a call, when it has come."""
        async with asyncio.timeout(30):
            while not self.has_answer(number):
                self.run()
                await asyncio.sleep(0)
        return self.answer(number)

    async def confirmed_up_to(self, number: int) -> None:
        """Wait until a batch is durable."""
        await until(lambda: self.confirmed[1] >= number)


def decoded(message: SessionMessage) -> Any:
    """The msgpack of a message."""
    return msgspec.msgpack.decode(message.content)


def delivered(message: SessionMessage) -> Delivered:
    """What a DELIVER says."""
    content, counts = message.content, array("I")
    if message.flags & COUNTED:
        counts.frombytes(content[: 4 * message.count])
        content = content[4 * message.count :]
    batch = records_of(content)
    assert batch.count == message.count
    return Delivered(
        message.subject,
        message.partition,
        message.first,
        tuple(batch.body(at).decode() for at in range(batch.count)),
        bool(message.flags & REDELIVERED),
        tuple(counts),
    )


def consume_call(**keywords: Any) -> dict[str, Any]:
    """The keywords of `consume`."""
    usual = {
        "tag": "tag",
        "no_ack": False,
        "exclusive": False,
        "priority": 0,
        "prefetch": 0,
        "group": None,
        "place": None,
        "filter": None,
        "channel": None,
    }
    return usual | keywords


async def declared(node: Node, name: str = "q", **arguments: object) -> Queue:
    """A durable queue; underlines in names of arguments are dashes."""
    named = {key.replace("_", "-"): value for key, value in arguments.items()}
    properties = QueueProperties(name, durable=True, arguments=named)
    queue, durable = declare_queue(node.vhost, properties, object())
    if durable is not None:
        await durable
    return queue
