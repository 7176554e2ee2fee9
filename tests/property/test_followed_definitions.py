"""A leader's definitions change in any way: a follower knows at each position what a start would find there."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Awaitable, Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest
from support.known_definitions import known_definitions, known_topology
from support.queue_samples import Node, Taker
from unit.vhosts.replicated_nodes import ReplicatedNode, replicated_node

from routelog.exchanges import Binding, Exchange, ExchangeInUse
from routelog.log_backend import ShardBlock
from routelog.vhosts import (
    GroupOptions,
    InvalidQueueProperty,
    InvalidVhost,
    ParameterNotFound,
    Permission,
    Policy,
    PolicyNotFound,
    Queue,
    QueueInequivalent,
    QueueProperties,
    TopicPermission,
    User,
    UserNotFound,
    VhostNotFound,
    VhostRecord,
    VirtualHost,
    pending,
)
from routelog.vhosts.stored.topology_record import TRANSIENT_PREFIX
from routelog.vhosts.vhost.stored_topology import StoredQueue

SEEDS = int(os.environ.get("ROUTELOG_TEST_EXAMPLES", "4"))
ROUNDS = 8
OPERATIONS = 12  # of a round
CROWD = 80  # bindings of one queue: more than go with it at once
NAMES = ("a", "b/c", "d%2F e", "ü")
VHOSTS = ("/", "other / vhost")
EXCHANGES: tuple[tuple[str, dict[str, object]], ...] = (
    ("direct", {}),
    ("topic", {"alternate-exchange": "a"}),
    ("headers", {}),
    ("x-recent-history", {}),
    ("x-message-deduplication", {"x-cache-size": 10, "x-cache-persistence": "disk"}),
    ("x-delayed-message", {"x-delayed-type": "direct"}),
)
QUEUES: tuple[dict[str, object], ...] = (
    {},
    {"x-partitions": 3},
    {"x-retention": "0s"},
    {"x-retention": "1h", "x-partitions": 2},
    {"x-max-length": 5},
)


class Connection:
    """A client; a leader gives followers its name."""

    def __init__(self, owner_name: str) -> None:
        self.owner_name = owner_name


class Declarer:
    """Changes definitions of a node that leads; what was answered is not awaited before the end of a round."""

    def __init__(self, node: ReplicatedNode, choice: random.Random) -> None:
        self._node = node
        self._choice = choice
        self._answers: list[Awaitable[object]] = []
        self._connections: list[Connection] = []

    async def some(self) -> None:
        """Change something."""
        for _ in range(OPERATIONS):
            (operation,) = self._choice.choices(
                (self.exchange, self.queue, self.bind, self.unbind, self.crowd, self.group,
                 self.policy, self.user, self.permission, self.parameter, self.vhost, self.kept,
                 self.change_queue, self.exclusive, self.disconnect, self.leave, self.expire),
                (4, 4, 6, 3, 1, 3, 1, 1, 2, 1, 1, 1, 2, 3, 1, 2, 1),
            )[0:1]  # fmt: skip
            operation()
            if self._choice.random() < 0.3:
                await asyncio.sleep(0)

    async def answered(self) -> None:
        """Wait until all of it is durable."""
        answers, self._answers = self._answers, []
        await asyncio.gather(*answers)
        for vhost in self._node.vhosts.all():
            await vhost._keeper.all_removed()

    def _await(self, durable: Awaitable[object] | None) -> None:
        if durable is not None:
            self._answers.append(durable)

    def _begin(self, work: Coroutine[Any, Any, object]) -> None:
        self._answers.append(asyncio.ensure_future(work))

    @property
    def _vhost(self) -> VirtualHost:
        return self._choice.choice(self._node.vhosts.all())

    def _name(self) -> str:
        return self._choice.choice(NAMES)

    def _queue(self, vhost: VirtualHost) -> Queue | None:
        return self._choice.choice([*vhost.queues.values()]) if len(vhost.queues) else None

    def exchange(self) -> None:
        vhost, name = self._vhost, self._name()
        if vhost.routing.has_exchange(name):
            with suppress(ExchangeInUse):
                self._await(vhost.delete_exchange(name, if_unused=self._choice.random() < 0.2))
            if self._choice.random() < 0.5:
                return
        if not vhost.routing.has_exchange(name) and not vhost.routing.has_departed(
            "exchange", name
        ):
            kind, arguments = self._choice.choice(EXCHANGES)
            declared = vhost.declare_exchange(
                Exchange(
                    name,
                    kind,
                    durable=self._choice.random() < 0.7,
                    auto_delete=self._choice.random() < 0.3,
                    arguments=arguments,
                )
            )
            self._await(declared)

    def queue(self) -> None:
        vhost, name = self._vhost, self._name()
        queue = vhost.queues.get(name)
        if queue is not None:
            self._await(pending(vhost.delete_queue(queue)))
            if self._choice.random() < 0.5:
                return
        if vhost.queues.get(name) is None and not vhost.routing.has_departed("queue", name):
            properties = QueueProperties(
                name,
                durable=self._choice.random() < 0.7,
                auto_delete=self._choice.random() < 0.2,
                arguments=self._choice.choice(QUEUES),
            )
            self._await(pending(vhost.declare_queue(properties, None)))

    def change_queue(self) -> None:
        vhost = self._vhost
        if (queue := self._queue(vhost)) and queue.declaring is None:
            self._begin(self._change(vhost, queue, self._choice.choice((None, 7, 9))))

    async def _change(self, vhost: VirtualHost, queue: Queue, limit: int | None) -> None:
        if queue.deleted:
            return
        if limit == 7:
            await vhost.pause_queue(queue, paused=not queue.paused)
        else:
            with suppress(QueueInequivalent, InvalidQueueProperty):
                await vhost.change_queue(queue, {"x-max-length": limit})

    def exclusive(self) -> None:
        """A connection of another node, or of the leader, declares a queue of its own."""
        vhost, name = self._vhost, self._name()
        if vhost.queues.get(name) is None and not vhost.routing.has_departed("queue", name):
            connection = Connection(self._choice.choice(("", "b:1", "c:2")))
            self._connections.append(connection)
            properties = QueueProperties(name, exclusive=True)
            self._await(pending(vhost.declare_queue(properties, connection)))

    def disconnect(self) -> None:
        if self._connections:
            connection = self._connections.pop(self._choice.randrange(len(self._connections)))
            for vhost in self._node.vhosts.all():
                vhost.connection_closed(connection)

    def leave(self) -> None:
        """The last consumer of an auto-delete queue leaves."""
        vhost = self._vhost
        queue = self._queue(vhost)
        if queue is not None and queue.properties.auto_delete:
            consumer = Taker()
            queue.add_consumer(consumer)
            queue.cancel(consumer)
            if self._choice.random() < 0.5:
                vhost.consumers_left(queue.name)
            else:
                self._await(vhost.delete_left(queue.name))

    def expire(self) -> None:
        """A queue is not used for so long that it goes."""
        vhost, name = self._vhost, self._name()
        if vhost.queues.get(name) is None and not vhost.routing.has_departed("queue", name):
            durable = self._choice.random() < 0.5
            properties = QueueProperties(name, durable, arguments={"x-expires": 100})
            self._await(pending(vhost.declare_queue(properties, None)))
        self._node.turns.pass_seconds(0.06)

    def bind(self) -> None:
        vhost = self._vhost
        sources = [each.name for each in vhost.routing.exchanges() if each.name in NAMES]
        if not sources:
            return
        source, key = self._choice.choice(sources), self._name()
        arguments = self._choice.choice(({}, {"n": 1}, {"n": 2, "x-match": "any"}))
        if self._choice.random() < 0.3:
            self._await(
                vhost.bind(
                    Binding(source, self._choice.choice(sources), "exchange", key, arguments)
                )
            )
        elif (name := self._name()) and vhost.routing.has_queue(name):
            self._await(vhost.bind(Binding(source, name, "queue", key, arguments)))

    def unbind(self) -> None:
        vhost = self._vhost
        bindings = [each for each in vhost.routing.bindings() if each.source in NAMES]
        if not bindings:
            return
        gone: Binding = self._choice.choice(sorted(bindings, key=repr))
        self._await(vhost.unbind(gone))
        if self._choice.random() < 0.5 and vhost.routing.has_exchange(gone.source):
            self._await(vhost.bind(gone))

    def crowd(self) -> None:
        vhost, name = self._vhost, self._name()
        if vhost.routing.has_queue(name):
            for number in range(CROWD):
                self._await(vhost.bind(Binding("amq.topic", name, "queue", f"{number}")))
            if self._choice.random() < 0.7:
                self._await(pending(vhost.delete_queue(vhost.queues[name])))

    def group(self) -> None:
        vhost = self._vhost
        queue = self._queue(vhost)
        if queue is None or queue.partitions[0].log.retention is None or queue.declaring:
            return
        name = self._choice.choice(("g", "h/i"))
        group = queue.groups.get(name)
        if group is None:
            self._await(vhost.hosted.groups.join(queue, GroupOptions(name), "first", 0)[1])
        elif group.creating is None and self._choice.random() < 0.5:
            self._await(vhost.hosted.groups.move(group, "next", 0))
        elif group.creating is None:
            self._await(vhost.hosted.groups.delete(group))

    def policy(self) -> None:
        vhost, operator = self._vhost, self._choice.random() < 0.5
        name = self._name()
        if any(each.name == name for each in vhost.policies.book.all(operator=operator)):
            self._begin(self._clear(vhost, name, operator=operator))
            return
        settings: dict[str, object] = {"max-length": self._choice.randint(1, 9)}
        priority = self._choice.randint(0, 3)
        policy = Policy(name, "^[ab]", settings, priority, is_operator=operator)
        self._begin(self._put_policy(vhost, policy))

    async def _put_policy(self, vhost: VirtualHost, policy: Policy) -> None:
        with suppress(VhostNotFound):  # deleted meanwhile
            await vhost.policies.put(policy)

    async def _clear(self, vhost: VirtualHost, name: str, *, operator: bool) -> None:
        with suppress(PolicyNotFound):  # another one was quicker
            await vhost.policies.delete(name, operator=operator)

    def user(self) -> None:
        users, name = self._node.users, self._name()
        if users.find(name) is not None and self._choice.random() < 0.4:
            self._begin(self._delete_user(name))
        else:
            self._begin(users.put_user(User(name, f"{self._choice.random()}", ("monitoring",))))

    async def _delete_user(self, name: str) -> None:
        with suppress(UserNotFound):
            await self._node.users.delete_user(name)

    def permission(self) -> None:
        self._begin(self._permit(self._name(), self._vhost.name))

    async def _permit(self, name: str, vhost: str) -> None:
        users, what = self._node.users, self._choice.randrange(6)
        if users.find(name) is None:
            return
        if what == 0:
            await users.set_permissions(name, vhost, Permission("^a", "", ".*"))
        elif what == 1:
            await users.clear_permissions(name, vhost)
        elif what == 2:
            await users.set_topic_permission(name, vhost, TopicPermission("a", "^x", ".*"))
        elif what == 3:
            await users.clear_topic_permissions(name, vhost)
        else:
            await users.set_limits(name, {"max-channels": 3} if what == 4 else {})

    def parameter(self) -> None:
        parameters, name = self._node.parameters, self._name()
        if name in parameters.all() and self._choice.random() < 0.5:
            self._begin(self._delete_parameter(name))
        else:
            self._begin(parameters.put(name, {"n": self._choice.randrange(9)}))

    async def _delete_parameter(self, name: str) -> None:
        with suppress(ParameterNotFound):
            await self._node.parameters.delete(name)

    def kept(self) -> None:
        kept = self._vhost.kept
        if kept.has_exchange("strange") and self._choice.random() < 0.5:
            self._begin(kept.delete_exchange("strange"))
        else:
            self._begin(kept.put("exchanges", {"name": "strange", "n": self._choice.randrange(9)}))

    def vhost(self) -> None:
        self._begin(self._put_or_delete(VHOSTS[1], self._choice.randint(0, 9)))

    async def _put_or_delete(self, name: str, what: int) -> None:
        vhosts = self._node.vhosts
        with suppress(VhostNotFound, InvalidVhost):  # another one was quicker
            if what < 4:
                await vhosts.delete(name)
            else:
                await vhosts.put(VhostRecord(name, limits={"max-queues": 100 + what}))


def known(node: Node) -> dict[str, object]:
    return known_definitions(node.vhosts, node.users, node.parameters)


async def found(node: ReplicatedNode) -> dict[str, object]:
    """What a start would find in the store of a node that follows."""
    started = Node(node.logs, node.writer, node.turns)
    await started.definitions.load()
    return known(started)


async def follow(node: ReplicatedNode, blocks: Sequence[ShardBlock]) -> None:
    """Follow, and look at each position."""
    for block in blocks:
        await node.follow([block])
        assert known(node) == await found(node)


def follows(node: ReplicatedNode, leader: ReplicatedNode) -> None:
    """The follower knows all that the leader has, which has answered everything."""
    ours, theirs = cast(Any, node.vhosts.budget), cast(Any, leader.vhosts.budget)
    assert (ours.bytes, ours._of_user) == (theirs.bytes, theirs._of_user)
    assert node.vhosts.next_partition == leader.vhosts.next_partition
    for vhost in leader.vhosts.all():
        known_here = node.vhosts.get(vhost.name)
        assert known_topology(known_here) == known_topology(vhost)
        assert known_here.stored.queues == {
            name: StoredQueue(
                queue.properties,
                [each.log.number for each in queue.partitions],
                queue.paused,
                getattr(queue.owner, "owner_name", ""),
            )
            for name, queue in vhost.queues.items()
        }
        for queue in vhost.queues.values():  # where it leads, it has those of others, too
            assert (queue.number in node.logs.partitions) is queue.is_stored


async def led_alike(node: ReplicatedNode, leader: ReplicatedNode) -> None:
    """The follower begins to lead with what it has, and has what the leader had that is durable, no more."""
    durable = {each.name: known_topology(each, transient=False) for each in leader.vhosts.all()}
    await node.lead(99)
    await node.drained()
    assert not [*node.logs.metadata.scan(TRANSIENT_PREFIX)]
    assert {each.name: known_topology(each) for each in node.vhosts.all()} == durable
    assert known(node)["budget"] == (await found(node))["budget"]
    for vhost in node.vhosts.all():
        theirs = leader.vhosts.get(vhost.name)
        stored = {name: queue for name, queue in theirs.queues.items() if queue.is_stored}
        assert set(vhost.queues) == set(stored)
        for name, queue in vhost.queues.items():
            there = stored[name]
            assert (queue.properties, queue.paused) == (there.properties, there.paused)
            assert queue.effective.values == there.effective.values
            assert [each.log.number for each in queue.partitions] == [
                each.log.number for each in there.partitions
            ]
            groups = {name: each.record for name, each in queue.groups.items()}
            assert groups == {name: each.record for name, each in there.groups.items()}


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_a_follower_knows_at_each_position_what_a_start_would_find(
    tmp_path: Path, seed: int
) -> None:
    choice = random.Random(seed)
    async with replicated_node(tmp_path / "a") as a, replicated_node(tmp_path / "b") as b:
        await a.lead(1)
        declarer, count = Declarer(a, choice), 0

        async def followed() -> None:
            nonlocal count
            await a.drained()
            blocks = a.made[count:]  # it may make more meanwhile
            count += len(blocks)
            await follow(b, blocks)

        for _ in range(ROUNDS):
            await declarer.some()
            if choice.random() < 0.8:
                await declarer.answered()
                await followed()
                follows(b, a)
            await followed()
        await declarer.answered()
        await followed()
        follows(b, a)
        await led_alike(b, a)


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_what_was_not_committed_and_copies_and_restarts_leave_no_trace(
    tmp_path: Path, seed: int
) -> None:
    """A leads and is cut off, B has a copy, follows, is started again and leads, and A follows B."""
    choice = random.Random(seed)
    async with replicated_node(tmp_path / "a") as a:
        await a.lead(1)
        declarer = Declarer(a, choice)
        await declarer.some()
        await declarer.answered()
        await a.drained()
        copied, count = await a.killed("b"), len(a.made)
        await declarer.some()
        await declarer.answered()
        await a.drained()
        shipped = a.made[count:]
        a.connected = False
        async with replicated_node(copied) as b:
            await follow(b, shipped)
            expected = known(b)
            restarted = await b.killed("b+")
        await declarer.some()
        await a.drained()
        deposed = await a.killed("deposed")
    async with replicated_node(restarted) as b:
        assert known(b) == expected
        await b.lead(2)
        declarer = Declarer(b, choice)
        await declarer.some()
        await declarer.answered()
        await b.drained()
        async with replicated_node(deposed) as follower:
            await follow(follower, b.made)
            await led_alike(follower, b)
