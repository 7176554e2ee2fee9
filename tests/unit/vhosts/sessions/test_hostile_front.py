"""A front that sends anything: it ends its session, and nothing of anybody else."""

from __future__ import annotations

import asyncio
import logging
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.queue_samples import Node, Taker, numbered, records, running_node
from unit.vhosts.sessions.hand_front import ACTOR, HandFront, consume_call, declared

from routelog.vhosts import Queue, encoded_arguments
from routelog.vhosts.sessions.session_message import (
    MORE,
    BadSessionMessage,
    Kind,
    SessionMessage,
    batch_pieces,
    decode_message,
    message_pieces,
)

MESSAGES = 12  # of each of two queues; the honest consumer has the first half of one
CALLS: list[tuple[str, list[Any]]] = [
    ("get", [False]),
    ("get", [True]),
    ("purge", []),
    ("counts", []),
    ("declared", []),
    ("cancel", [3]),
    ("detach", [[3, 4]]),
    ("stand_aside", [4]),
    ("redeliver", [{"consumer": 3, "partition": 0, "first": 6, "end": 8}]),
    ("consume", [consume_call(consumer=5, no_ack=True)]),
    ("consume", [consume_call(consumer=6, place="first", prefetch=3)]),
    ("consume", [consume_call(consumer=7, group=["g", None, None], place="first", prefetch=3)]),
    ("consume", [consume_call(consumer=8, filter={"x-filter": "TRUE"}, place=0)]),
    ("consume", [consume_call(consumer=9, exclusive=True)]),
    ("consume", [consume_call(consumer=3, prefetch=2)]),
    ("consume", [consume_call(consumer=4, place="first", filter={"x-filter": "what is"})]),
]
QUEUE_CALL = {
    "name": "mine",
    "durable": False,
    "exclusive": True,
    "auto_delete": False,
    "arguments": encoded_arguments({"x-max-length": 3}),
    "server_named": False,
}
DEFINITIONS: list[list[Any]] = [
    ["declare_queue", "/", ACTOR, 1, QUEUE_CALL],
    ["delete_queue", "/", ACTOR, 1, {"name": "mine", "if_unused": False, "if_empty": False}],
    ["connection_closed", "/", 1],
    ["exchange_declared", "/", ACTOR, 1, {"name": "amq.topic"}],
]


def honest(queues: tuple[Queue, Queue], chance: random.Random) -> Iterator[list[Any]]:
    """Pieces of messages as a front may send them, and some that are nearly so."""
    for subject, queue in enumerate(queues, 1):
        content = msgspec.msgpack.encode(["/", queue.name])
        yield message_pieces(
            SessionMessage(Kind.QUEUE, subject=subject, number=queue.number, content=content)
        )
    for consumer, subject in ((3, 1), (4, 2)):
        yield call(subject, "consume", [consume_call(consumer=consumer, prefetch=4)])
    for number in range(1, 40):
        kind = chance.choice([Kind.PUBLISH, Kind.SETTLE, Kind.RETURN, Kind.CALL, Kind.CREDIT])
        subject = chance.choice([1, 2])
        source = chance.choice([1, 2, 3, 4, 4, 3])
        first = chance.choice([0, 0, MESSAGES // 2, chance.randrange(MESSAGES)])
        if kind is Kind.PUBLISH:
            head = SessionMessage(kind, subject=subject, number=number)
            yield batch_pieces(head, records("fuzz", persistent=False))
        elif kind is Kind.CALL:
            if chance.random() < 0.2:
                yield call(0, chance.choice(DEFINITIONS)[0], chance.choice(DEFINITIONS)[1:])
            else:
                yield call(subject, *chance.choice(CALLS))
        else:
            flags = chance.choice([1, 2, 3, 1 | MORE, 2 | MORE])
            count = chance.choice([0, 1, 1, 2, 4])
            yield message_pieces(SessionMessage(kind, flags, 0, source, first=first, count=count))


def call(subject: int, method: str, arguments: list[Any]) -> list[Any]:
    content = msgspec.msgpack.encode([method, *arguments])
    return message_pieces(SessionMessage(Kind.CALL, 0, 0, subject, 1, content=content))


def broken(octets: bytearray, chance: random.Random) -> None:
    """Change some bytes, but not the length."""
    for _ in range(chance.randint(1, 3)):
        at = chance.choice(
            [chance.randrange(4, min(40, len(octets))), chance.randrange(4, len(octets))]
        )
        octets[at] = chance.choice([0, 1, 2, 255, octets[at] ^ (1 << chance.randrange(8))])


class Attack:
    """Sessions with a queue of which somebody else has the first half."""

    def __init__(self, node: Node, queues: tuple[Queue, Queue]) -> None:
        self.node = node
        self.queues = queues
        self.honest = Taker(MESSAGES // 2)
        queues[0].add_consumer(self.honest)
        node.turns.run()

    async def session(self, chance: random.Random, share: float) -> None:
        """One session, which ends with the first fault or the last message."""
        front = HandFront(self.node)
        try:
            for pieces in honest(self.queues, chance):
                octets = bytearray(b"".join(pieces))
                if chance.random() < share:
                    broken(octets, chance)
                decoded = decode_message(octets, 0, len(octets))
                assert decoded is not None
                front.session.received(decoded[0])
                if chance.random() < 0.3:
                    self.node.turns.run()
                    await asyncio.sleep(0)
        except BadSessionMessage:
            pass
        front.session.closed()
        while front.session._calls:
            self.node.turns.run()
            await asyncio.sleep(0)
        self.node.turns.run()
        assert not front.failures

    def check(self) -> None:
        """Nothing of the sessions is left, and the honest consumer has what it had."""
        first, second = self.queues
        had = {
            offset
            for delivery in self.honest.deliveries
            for offset in range(delivery.offset, delivery.offset + delivery.count)
        }
        assert len(had) == MESSAGES // 2
        settled = first.partitions[0].cursor.settled
        assert not [offset for offset in had if offset in settled]
        assert (first.unacked, first.consumers) == (MESSAGES // 2, [self.honest])
        assert (second.unacked, second.consumer_count) == (0, 0)
        for group in second.groups.values():
            assert (group.unacked, group.consumers) == (0, [])
        owners = [queue.owner for queue in self.node.vhost.queues.values()]
        assert not any(queue.properties.exclusive for queue in self.node.vhost.queues.values()), (
            owners
        )


class Faults(logging.Handler):
    """Keeps what is logged of faults of ours."""

    def __init__(self, level: int) -> None:
        super().__init__(level)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """See `logging.Handler`."""
        self.texts.append(record.getMessage())


async def _attack(data: Path, seed: int, share: float) -> None:
    chance = random.Random(seed)
    async with running_node(data) as node:
        plain = await declared(node, "plain")
        log = await declared(node, "log", x_retention="1h")
        for queue in (plain, log):
            queue.publish(records(*numbered(0, MESSAGES)), waited=False)
        attack = Attack(node, (plain, log))
        for _ in range(20):
            await attack.session(chance, share)
            attack.check()


@pytest.mark.parametrize("share", [0.0, 0.1, 0.6])
@given(seed=st.integers(0, 1 << 32))
@settings(max_examples=15, deadline=None, suppress_health_check=[*HealthCheck])
def test_a_hostile_front_harms_itself(share: float, seed: int) -> None:
    handler = Faults(logging.ERROR)
    logging.getLogger("routelog.vhosts.sessions").addHandler(handler)
    try:
        with tempfile.TemporaryDirectory() as data:
            asyncio.run(_attack(Path(data), seed, share))
    finally:
        logging.getLogger("routelog.vhosts.sessions").removeHandler(handler)
    assert not handler.texts
