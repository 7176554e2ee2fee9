"""A commit that fails in any of its steps leaves nothing, in memory and on the disk."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from support.frame_samples import publish, some_properties
from support.intake_samples import share
from support.loop_services import scheduler_on
from support.queue_samples import Node, Taker, records, running_node
from support.waiting import until
from unit.amqp_front.publishing_channel import Channel, HastyClock, runs
from unit.log_backend.open_store import crash

from routelog.amqp_front.publishing.publisher import Publisher
from routelog.amqp_front.transactions import commit_plan
from routelog.amqp_front.transactions.commit import Commit
from routelog.amqp_front.transactions.commit_planning import CommitPlanning
from routelog.amqp_front.transactions.transaction import Kept, Transaction
from routelog.exchanges import Binding, Exchange
from routelog.log_backend import (
    LogOptions,
    PartitionLog,
    Progress,
    SettledEntries,
    SettledPart,
    Settlement,
)
from routelog.vhosts import Queue, QueueProperties
from routelog.vhosts.delays.held_messages import HeldMessages
from routelog.vhosts.publishing.recent_history import RecentHistory
from routelog.vhosts.publishing.seen_keys import SeenKeys

ARGUMENTS: dict[str, dict[str, object]] = {
    "plain": {},
    "consumed": {},
    "parts": {"x-partitions": 4},
    "limited": {"x-max-length": 3},
    "bytes": {"x-max-length-bytes": 1_000},
    "prior": {"x-max-priority": 3},
    "brief": {"x-message-ttl": 3_600_000},
    "stream": {"x-queue-type": "stream"},
    **{f"more-{number}": {} for number in range(24)},  # so it takes turns
}
KEYED = {"keyed": {"x-message-deduplication": True}}  # of no commit that takes turns
EXCHANGES: dict[str, tuple[str, dict[str, object]]] = {
    "once": ("x-message-deduplication", {"x-cache-size": 100, "x-cache-persistence": "disk"}),
    "recent": ("x-recent-history", {}),
    "later": ("x-delayed-message", {"x-delayed-type": "direct"}),
}
STEPS_MAX = 200
PERSISTENT, TRANSIENT = "of the transaction", "transient"
SETTLED = 5


class MadeToFail(Exception):
    """A fault of ours."""


class Fault:
    """Lets one call of many fail, before it does anything or when it has."""

    def __init__(self) -> None:
        self.step = -1
        self.calls = 0

    def call(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Call a function."""
        self.calls += 1
        fails = (self.calls - 1) // 2 == self.step // 2 and self.step >= 0
        if fails and not self.step % 2:
            raise MadeToFail
        result = function(*arguments, **named)
        if fails:
            raise MadeToFail
        return result


@pytest.fixture
def fault(monkeypatch: pytest.MonkeyPatch) -> Fault:
    """In what a commit calls."""
    fault = Fault()
    for kind, name in (
        (Queue, "publish"),
        (HeldMessages, "publish"),
        (SeenKeys, "remember"),
        (RecentHistory, "remember"),
    ):
        function = getattr(kind, name)

        def call(*arguments: Any, function: Any = function, **named: Any) -> Any:
            return fault.call(function, *arguments, **named)

        monkeypatch.setattr(kind, name, call)
    return fault


async def declare(node: Node, names: dict[str, dict[str, object]], extra: bool) -> None:
    """Have queues and exchanges."""
    for name, arguments in names.items():
        properties = QueueProperties(name, durable=True, arguments=arguments)
        node.vhost.declare_queue(properties, object())
    await until(lambda: all(queue.declaring is None for queue in node.vhost.queues.values()))
    for name, (kind, arguments) in EXCHANGES.items() if extra else ():
        node.vhost.declare_exchange(Exchange(name, kind, durable=True, arguments=arguments))
        node.vhost.bind(Binding(name, "plain", "queue", "plain"))
    node.turns.run()


class Entries:
    """What a commit settles; to encode it may fail."""

    def __init__(self, fault: Fault, entries: SettledEntries) -> None:
        self.count = entries.count
        self._fault = fault
        self._entries = entries

    @property
    def content(self) -> object:
        """See `SettledEntries`."""
        return self._fault.call(lambda: self._entries.content)


class Scene:
    """A node, and a transaction that is tried again and again."""

    def __init__(self, node: Node, fault: Fault, seed: int) -> None:
        self.node = node
        self.chance = random.Random(seed)
        self.extra = seed % 2 == 1
        self.channel = Channel(node.vhost, Progress(node.turns.call_soon, float))
        self.publisher = Publisher(cast(Any, self.channel))
        self.taker = Taker()
        node.vhost.queues["consumed"].add_consumer(self.taker)
        self.others = 0
        names = [*ARGUMENTS, *(KEYED if self.extra else ())]
        self.messages = [self._message(self.chance.choice(names), at) for at in range(60)]
        if self.extra:
            self.messages += [self._through(name) for name in EXCHANGES for _ in range(2)]
            self.chance.shuffle(self.messages)
        number = node.vhost.queues["plain"].partitions[0].log.number
        settled = SettledPart(number, Settlement(0, [(0, SETTLED)]))
        self.settled = Entries(fault, SettledEntries([settled]))

    def _message(self, queue: str, at: int) -> bytes:
        is_persistent = queue == "stream" or self.chance.random() < 0.7
        properties = some_properties(
            delivery_mode=1 + is_persistent,
            priority=self.chance.randrange(4),
            headers={"x-deduplication-header": f"key {at}"},
        )
        body = PERSISTENT if is_persistent else TRANSIENT
        return publish(1, "", queue, body.encode(), properties=properties)

    def _through(self, exchange: str) -> bytes:
        headers = {"x-deduplication-header": exchange, "x-delay": 3_600_000}
        properties = some_properties(delivery_mode=2, headers=headers)
        return publish(1, exchange, "plain", PERSISTENT.encode(), properties=properties)

    def kept(self) -> Sequence[Kept]:
        """What the transaction keeps."""
        transaction = Transaction(share())
        for message in self.messages:
            for run in runs(message):
                for checked in self.publisher.check(run):
                    transaction.publish(checked)
        return transaction.kept

    async def commit(self) -> None:
        """Try to commit; others publish between the turns."""
        loop = asyncio.get_running_loop()
        services: Any = SimpleNamespace(
            loop=loop,
            scheduler=scheduler_on(loop),
            progress=self.channel.services.progress,
            clock=HastyClock(),
            settlings=deque(),
        )
        of_channel = cast(Any, self.channel), self.publisher.returns
        planning = CommitPlanning(*of_channel, self.kept())
        while (plan := planning.go_on()) is None:
            pass
        assert plan.takes_turns is not self.extra
        settling: Any = SimpleNamespace(
            entries=self.settled,
            are_few=True,
            leaving=lambda: (),
            failed=self._failed,
            at_once=self._settle,
        )
        self.fails = False
        commit = Commit(services, self.node.vhost.hosted.logs.transaction(), plan, [settling])
        while services.scheduler._jobs:
            self._publish_another()
            self.node.turns.run()
            await asyncio.sleep(0)
        self.node.turns.run()
        if not commit.reached.done():
            self.node.logs.progress.advance(1 << 40, 1 << 40)
        await commit.reached

    def _failed(self) -> None:
        self.fails = True

    def _settle(self) -> None:
        if not self.fails:
            self.node.vhost.queues["plain"].partitions[0].settle(0, SETTLED)

    def _publish_another(self) -> None:
        for name in ("consumed", "parts", "stream", "prior"):
            self.others += 1
            log = self.node.vhost.queues[name].partitions[0].log
            log.append(records(f"other {self.others}"), True)

    async def found(self) -> dict[str, object]:
        """What there is, but for what others have published."""
        vhost, found = self.node.vhost, dict[str, object]()
        for name, queue in vhost.queues.items():
            found[name] = await of_queue(queue)
            if queue.rules is not None and queue.rules.length is not None:
                found[f"bytes of {name}"] = queue.rules.length.ready_bytes
        found["taken"] = [body for body in self.taker.bodies() if not body.startswith("other")]
        if self.extra:
            memories: dict[str, Any] = dict(vhost.hosted.memories.by_name)
            found["keys"] = len(memories["once"])
            found["history"] = sum(each.count for each in memories["recent"].stretches())
            held = vhost.hosted.delays.held("later")
            found["held"] = held and held.count
        return found


async def of_queue(queue: Queue) -> list[str]:
    """The bodies of what is ready, but for what others have published."""
    bodies = []
    for partition in queue.partitions:
        for first, end in partition.ready_ranges():
            for offset in range(first, end):
                await loaded(partition.log, offset)  # it may leave memory at any turn
                batch = partition.log.read(offset)
                if batch is not None and batch.base_offset <= offset:
                    bodies.append(batch.records.body(offset - batch.base_offset).decode())
    assert queue.is_stream or queue.ready == len(bodies), [queue.name, *map(told, queue.partitions)]
    return [body for body in bodies if not body.startswith("other")]


def told(partition: Any) -> dict[str, object]:
    """Where the records of a partition are."""
    log = partition.log
    return {
        "ready": (partition.ready, list(partition.ready_ranges())),
        "log": (log.first_offset, log.ready_end, log.next_offset),
        "blocked": (log.blocked_from, log.damage.found),
        "segments": [
            (each.base_offset, each.written_end, each.end_offset) for each in log.segments
        ],
        "needs load": [at for at in range(log.first_offset, log.next_offset) if log.needs_load(at)],
    }


def without_transient(found: dict[str, object]) -> dict[str, list[str]]:
    """By queue, what a restart leaves; what was taken is ready again."""
    queues = {name: each for name, each in found.items() if isinstance(each, list)}
    queues["consumed"] += queues.pop("taken")
    return {name: [b for b in each if b != TRANSIENT] for name, each in queues.items()}


async def restarted(data: Path) -> dict[str, list[str]]:
    """By queue, what a node finds in a directory."""
    async with running_node(data) as node:
        return {name: await of_queue(queue) for name, queue in node.vhost.queues.items()}


async def loaded(log: PartitionLog, offset: int) -> None:
    """Have in memory what a log holds at an offset."""
    while log.needs_load(offset):
        done = asyncio.Event()
        log.load(offset, done.set)
        await done.wait()


# What is flushed is read piece by piece after a restart, and a piece may go before all are looked at.
UNFLUSHED = LogOptions(journal_file_bytes=1024 * 1024, flush_seconds=3600)


@pytest.mark.parametrize("seed", range(4))
async def test_each_step_fails_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Fault, seed: int
) -> None:
    monkeypatch.setattr(commit_plan, "AT_ONCE_MAX", 0)
    data = tmp_path / "data"
    async with running_node(data, UNFLUSHED) as node:
        names = {**ARGUMENTS, **(KEYED if seed % 2 else {})}
        await declare(node, names, seed % 2 == 1)
        for _ in range(SETTLED):
            node.vhost.queues["plain"].publish(records("input"), True)
            assert node.vhost.queues["plain"].get() is not None
        node.vhost.queues["limited"].publish(records("a", "b", "c"), True)
        node.turns.run()
        scene = Scene(node, fault, seed)
        before = await scene.found()
        for step in range(STEPS_MAX):
            fault.step, fault.calls = step, 0
            with suppress(MadeToFail):
                await scene.commit()
                break
            assert await scene.found() == before, step
            if step % 20 == 7:
                await durable(node)
                left = await crash(node.logs, data, f"failed-{step}")
                expected = without_transient(before)
                expected["plain"] = ["input"] * SETTLED
                assert await restarted(left) == expected, step
        assert 40 < step < STEPS_MAX - 1
        done = await scene.found()
        await durable(node)
        left = await crash(node.logs, data, "done")
        assert await restarted(left) == without_transient(done)
        assert sum(each.count(PERSISTENT) for each in without_transient(done).values()) > 10


async def durable(node: Node) -> None:
    """Wait until the journal has all that it was given."""
    journal = node.logs.journal
    await until(
        lambda: (
            not journal.groups.first.count and journal.durable == journal.groups.first.position - 1
        )
    )
