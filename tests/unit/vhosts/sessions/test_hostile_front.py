"""A front that sends anything: it ends its session, and nothing of anybody else."""

from __future__ import annotations

import asyncio
import logging
import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.queue_samples import Node, Taker, numbered, records, running_node
from unit.broker.sessions.hostile_messages import MESSAGES, honest
from unit.vhosts.sessions.hand_front import HandFront, declared

from routelog.vhosts import Queue
from routelog.vhosts.sessions.session_message import BadSessionMessage, decode_message


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
