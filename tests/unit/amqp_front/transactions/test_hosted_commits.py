"""Transactions of other nodes' clients: all of one or nothing, also of a long one that others come between."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from support.queue_samples import Node, SlowDisk, Taker, bodies, declare_queue, records
from unit.vhosts.sessions.session_pipe import session_host

from routelog.log_backend import JournalFailed, PartitionLog, Reason
from routelog.vhosts import (
    UNCOUNTED,
    ConsumeOptions,
    Queue,
    QueueProperties,
    SettledRange,
    TransactionParts,
    TransactionRefused,
)

MANY = 200  # batches: more than go at once


def declared(node: Node, name: str, **arguments: object) -> Queue:
    named = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
    queue, _ = declare_queue(node.vhost, QueueProperties(name, arguments=named), object())
    return queue


class Leader:
    """A node with an input that is delivered, and a queue of outputs."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.source, self.target = declared(node, "in"), declared(node, "out")
        self.source.publish(records("input"), True)
        self.taker = Taker()
        self.source.attach(self.taker, ConsumeOptions(), lambda source: None)
        node.turns.run()

    def begin(self, count: int = 1, *others: Queue) -> asyncio.Future[None]:
        """A transaction that makes outputs of the input, and something for other queues."""
        partition = self.source.partitions[0]
        consumer: Any = None
        batches = [(records(f"m{at}"), self.target) for at in range(count)]
        batches += [(records("x"), other) for other in others]
        settled = {Reason.ACKED: [SettledRange(partition, 0, 1, consumer)]}
        parts = TransactionParts(self.node.vhost, batches, settled)
        return session_host(self.node, []).commit(parts, UNCOUNTED)

    async def ended(self, committed: asyncio.Future[None]) -> None:
        """Await its end; raises its error."""
        async with asyncio.timeout(30):
            while not committed.done():
                self.node.turns.run()
                await asyncio.sleep(0)
        self.node.turns.run()
        committed.result()

    @property
    def state(self) -> tuple[int, int]:
        """Inputs, and outputs."""
        partition = self.source.partitions[0]
        return partition.ready + partition.in_flight, self.target.ready


@pytest.fixture
def leader(node: Node) -> Leader:
    return Leader(node)


@pytest.mark.parametrize("count", [0, 1, MANY])
async def test_all_of_it_is_done(leader: Leader, count: int) -> None:
    await leader.ended(leader.begin(count))
    assert leader.state == (0, count)


async def test_a_full_queue_refuses_all_of_it(leader: Leader) -> None:
    full = declared(leader.node, "full", max_length=0, overflow="reject-publish")
    with pytest.raises(TransactionRefused, match=r"transaction refused, queue 'full'"):
        await leader.ended(leader.begin(MANY, full))
    assert leader.state == (1, 0)
    assert [each.redelivered for each in leader.taker.deliveries] == [False, True]


async def test_an_error_leaves_nothing(leader: Leader, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(log: PartitionLog, *arguments: object) -> int:
        raise JournalFailed("broken")

    monkeypatch.setattr(Queue, "publish", fail)
    with pytest.raises(JournalFailed, match=r"broken"):
        await leader.ended(leader.begin())
    assert leader.state == (1, 0)


async def test_one_at_a_time_takes_turns(leader: Leader) -> None:
    node, other = leader.node, declared(leader.node, "other")
    node.turns.clock.look_microseconds = 300  # who waits does so in turns
    held = node.logs.transaction()
    held.append(lambda: other.publish(records("of another one"), True))
    held.pause()
    committed = leader.begin(MANY)
    for _ in range(5):
        node.turns.one()
    assert (committed.done(), leader.target.ready) == (False, 0)
    held.end()
    while held.show_some():
        pass
    await leader.ended(committed)
    assert leader.state == (0, MANY)


async def test_what_reaches_nobody_is_committed_when_the_journal_has_the_reason(
    leader: Leader,
) -> None:
    node, gone = leader.node, declared(leader.node, "gone")
    node.vhost.delete_queue(gone)
    node.vhost._writer = disk = cast(Any, SlowDisk())
    position = node.logs.journal.durable + 1
    disk.receipt = node.logs.progress.receipt(0, position)
    parts = TransactionParts(node.vhost, [(records("x"), gone)], {})
    committed = session_host(node, []).commit(parts, UNCOUNTED)
    for _ in range(9):
        node.turns.run()
        await asyncio.sleep(0)
    assert not committed.done()
    node.logs.progress.advance(position, position)
    await leader.ended(committed)


async def test_a_queue_that_is_deleted_while_it_waits_gets_nothing(leader: Leader) -> None:
    node, other, gone = leader.node, declared(leader.node, "other"), declared(leader.node, "gone")
    node.turns.clock.look_microseconds = 300  # who waits does so in turns
    held = node.logs.transaction()
    held.append(lambda: other.publish(records("of another one"), True))
    held.pause()
    committed = leader.begin(MANY, gone)
    for _ in range(5):
        node.turns.one()
    node.vhost.delete_queue(gone)
    held.end()
    while held.show_some():
        pass
    await leader.ended(committed)
    assert leader.state == (0, MANY)
    delivery = leader.target.get()
    assert delivery is not None
    assert bodies(delivery) == ["m0"]
