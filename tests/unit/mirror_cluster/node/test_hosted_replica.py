"""A replica in a node whose journal, coordinator and owner are the test's."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest
from support.waiting import until
from unit.mirror_cluster.journals import SHARD, record

from routelog.log_backend import START, Mark, ShardBlock, SystemClock
from routelog.mirror_cluster.coordination.coordinator import CoordinatorUnavailable
from routelog.mirror_cluster.node import hosted_replica
from routelog.mirror_cluster.node.copy_receiver import CopyError
from routelog.mirror_cluster.node.hosted_replica import HostedReplica
from routelog.mirror_cluster.node.journal_storage import CopyWaits, Notice, Recovered
from routelog.mirror_cluster.protocol.messages import (
    Acknowledge,
    Append,
    CopyFrom,
    Hello,
    Message,
    TruncateTo,
)
from routelog.mirror_cluster.protocol.promise import Promise
from routelog.mirror_cluster.protocol.shard_record import ShardRecord
from routelog.mirror_cluster.replica.chain import Chain
from routelog.mirror_cluster.replica.events import (
    Appended,
    Durable,
    LeaseHeld,
    NodesAlive,
    Promised,
    Received,
    RecordSeen,
    Tick,
)
from routelog.mirror_cluster.replica.settings import ReplicaSettings

PROCESS = 11


class ReplicaSurroundings:
    """Everything around one replica, whose disk answers within its calls."""

    def __init__(self) -> None:
        self.clock = SystemClock()
        self.coordinator = self.owner = self
        self.calls: list[tuple[object, ...]] = []
        self.sent: list[tuple[str, Message]] = []
        self.answers: list[ShardRecord | Exception | None] = []
        self.proposed: list[ShardRecord] = []
        self.tasks: list[asyncio.Task] = []
        self.notify: Callable[[Notice], None] = lambda notice: None
        self.end_of_chain: Mark = START
        self.checkpoint: Mark | Exception = CopyError("none")
        self.copying = asyncio.Event()

    # Its journal

    def start(self, notify: Callable[[Notice], None]) -> Recovered:
        self.notify = notify
        return Recovered(SHARD, 1, Chain(), Promise(), 0)

    def store(self, blocks: Sequence[ShardBlock]) -> None:
        self.calls.append(("store", *(each.position for each in blocks)))
        self.notify(Durable(blocks[-1].mark))

    def begin_epoch(self, epoch: int) -> None:
        self.calls.append(("begin", epoch))
        block = ShardBlock.following(self.end_of_chain, SHARD, epoch, b"")
        self.end_of_chain = block.mark
        self.notify(Appended(block))
        self.notify(Durable(block.mark))

    def save_promise(self, promise: Promise) -> None:
        self.calls.append(("promise", promise.epoch))
        self.notify(Promised(promise))

    def commit(self, position: int) -> None:
        self.calls.append(("commit", position))

    async def copy(self, leader: str, *, heals: bool = False) -> Mark:
        self.calls.append(("copy", leader))
        await self.copying.wait()
        if isinstance(self.checkpoint, Exception):
            raise self.checkpoint
        return self.checkpoint

    # Its coordinator, owner and surroundings

    async def propose(self, wanted: ShardRecord, seen: ShardRecord) -> ShardRecord | None:
        self.proposed.append(wanted)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def serve(self, shard: int, epoch: int) -> None:
        self.calls.append(("serve", shard, epoch))

    def end(self, reason: str) -> None:
        self.calls.append(("end", reason))

    def send(self, to: str, message: Message) -> None:
        self.sent.append((to, message))

    def read_soon(self) -> None:
        pass

    def spawn(self, work: Coroutine) -> asyncio.Task:
        self.tasks.append(asyncio.create_task(work))
        return self.tasks[-1]


@asynccontextmanager
async def hosted(node: ReplicaSurroundings, min_in_sync: int = 1) -> AsyncIterator[HostedReplica]:
    settings = ReplicaSettings(min_in_sync=min_in_sync)
    yield HostedReplica("a", PROCESS, settings, node, node)
    for task in node.tasks:
        task.cancel()
    await asyncio.gather(*node.tasks, return_exceptions=True)


def candidate(replica: HostedReplica, found: ShardRecord) -> None:
    """It has a lease, has read the record, and the leader's process is gone."""
    replica.handle(LeaseHeld())
    replica.handle(RecordSeen(found))
    replica.handle(NodesAlive({"a": PROCESS}))


async def test_it_claims_promises_begins_its_epoch_and_serves_in_this_order() -> None:
    node = ReplicaSurroundings()
    async with hosted(node) as replica:
        led = replace(record("a", in_sync="a", claim=PROCESS, epoch=2), revision=2)
        node.answers = [led]
        candidate(replica, record("b", in_sync="a", claim=5))
        await until(lambda: replica.replica.serving)
        wanted = [("promise", 1), ("promise", 2), ("begin", 2), ("commit", 1), ("serve", SHARD, 2)]
        assert node.calls == wanted


async def test_a_proposal_that_nobody_answered_is_answered_and_made_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hosted_replica, "PROBLEM_PAUSE_SECONDS", 0.01)
    node = ReplicaSurroundings()
    async with hosted(node) as replica:
        led = replace(record("a", in_sync="a", claim=PROCESS, epoch=2), revision=2)
        node.answers = [CoordinatorUnavailable("away"), None, led]
        candidate(replica, record("b", in_sync="a", claim=5))
        for count in (2, 3):
            await until(lambda: replica.replica._claim_revision is None)
            replica.handle(Tick())
            assert len(node.proposed) <= count
        await until(lambda: replica.replica.serving)
        assert node.proposed[0] == node.proposed[2]


async def test_a_followers_blocks_come_from_memory_when_it_leads() -> None:
    node = ReplicaSurroundings()
    async with hosted(node, min_in_sync=2) as replica:
        led = record("a", in_sync="ab", claim=PROCESS)
        replica.handle(RecordSeen(led))
        replica.handle(Received("b", Hello(SHARD, 1, 9, "b", 2, (START,))))
        assert node.sent.pop() == ("b", TruncateTo(SHARD, 1, 9, START))
        replica.handle(Received("b", Acknowledge(SHARD, 1, 9, 0, 0.0)))
        to, message = node.sent.pop()
        assert isinstance(message, Append)
        assert (to, [each.position for each in message.blocks]) == ("b", [1])
        assert ("commit", 1) not in node.calls
        replica.handle(Received("b", Acknowledge(SHARD, 1, 9, 1, message.stamp)))
        assert node.calls[-2:] == [("commit", 1), ("serve", SHARD, 1)]


def hello(node: ReplicaSurroundings) -> Hello:
    """The last one that it sent."""
    message = node.sent[-1][1]
    assert isinstance(message, Hello)
    return message


async def test_a_copy_that_fails_is_asked_for_again_and_one_that_is_given_up_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hosted_replica, "PROBLEM_PAUSE_SECONDS", 0.01)
    node = ReplicaSurroundings()
    async with hosted(node) as replica:
        replica.handle(RecordSeen(record("b", in_sync="b", claim=5)))

        replica.handle(Received("b", CopyFrom(SHARD, 1, hello(node).session)))
        node.copying.set()
        await until(lambda: len(node.sent) == 2)
        node.copying.clear()
        replica.handle(Received("b", CopyFrom(SHARD, 1, hello(node).session)))
        await until(lambda: node.calls.count(("copy", "b")) == 2)
        node.checkpoint = Mark(5, 1, 77)
        replica.handle(RecordSeen(replace(record("c", in_sync="c", claim=6, epoch=2), revision=2)))
        node.copying.set()
        await asyncio.gather(*node.tasks, return_exceptions=True)
        assert replica.replica.log.committed == 0
        replica.handle(Received("c", CopyFrom(SHARD, 2, hello(node).session)))
        await until(lambda: replica.replica.log.committed == 5)
        assert hello(node).epoch_ends == (node.checkpoint,)


def has_sent(node: ReplicaSurroundings, count: int) -> bool:
    return len(node.sent) == count


async def test_copies_that_fail_come_less_and_less_often_until_another_node_leads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(hosted_replica, "asyncio", SimpleNamespace(sleep=sleep))
    node = ReplicaSurroundings()
    node.copying.set()
    async with hosted(node) as replica:
        replica.handle(RecordSeen(record("b", in_sync="b", claim=5)))
        for count in range(1, 10):
            replica.handle(Received("b", CopyFrom(SHARD, 1, hello(node).session)))
            await until(partial(has_sent, node, 1 + count))
        assert pauses == [0.3, 0.6, 1.2, 2.4, 4.8, 9.6, 19.2, 30.0, 30.0]
        node.copying.clear()
        replica.handle(Received("b", CopyFrom(SHARD, 1, hello(node).session)))
        replica.handle(RecordSeen(replace(record("c", in_sync="c", claim=6, epoch=2), revision=2)))
        node.copying.set()
        replica.handle(Received("c", CopyFrom(SHARD, 2, hello(node).session)))
        await until(lambda: len(pauses) == 10)
        assert pauses[-1] == 0.3


async def test_a_copy_that_waits_for_a_start_ends_the_process_and_nothing_more_is_done() -> None:
    node = ReplicaSurroundings()
    async with hosted(node) as replica:
        replica.handle(RecordSeen(record("b", in_sync="b", claim=5)))
        message = node.sent[-1][1]
        assert isinstance(message, Hello)
        replica.handle(Received("b", CopyFrom(SHARD, 1, message.session)))
        node.checkpoint = CopyWaits("a copy is here")
        node.copying.set()
        await until(lambda: ("end", "a copy is here") in node.calls)
        calls, sent = len(node.calls), len(node.sent)
        replica.handle(RecordSeen(replace(record("c", in_sync="c", claim=6, epoch=2), revision=2)))
        replica.handle(Tick())
        assert (len(node.calls), len(node.sent)) == (calls, sent)


async def test_an_error_in_a_replica_ends_the_process_and_nothing_more_is_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node = ReplicaSurroundings()
    async with hosted(node) as replica:

        def fail(epoch: int) -> None:
            raise RuntimeError("broken")

        monkeypatch.setattr(node, "save_promise", fail)
        replica.handle(RecordSeen(record()))
        assert [call[0] for call in node.calls] == ["end"]
        replica.handle(RecordSeen(record("c", epoch=2, revision=2)))
        assert len(node.calls) == 1
