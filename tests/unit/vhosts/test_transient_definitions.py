"""Definitions that are not durable: in the journal of a cluster, and nowhere else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.queue_samples import Node, SlowDisk, declare_queue, running_node
from support.waiting import until
from unit.vhosts.replicated_nodes import ReplicatedNode, replicated_node

from routelog.exchanges import Binding, Exchange
from routelog.log_backend import ShardBlock
from routelog.vhosts import QueueLocked, QueueProperties, VhostRecord, VirtualHost, pending
from routelog.vhosts.sessions.definition_barrier import DefinitionBarrier
from routelog.vhosts.stored.topology_record import TRANSIENT_PREFIX

CONDITIONS = {"durable": False, "auto_delete": True, "internal": False, "arguments": {}}


class Connection:
    """A connection of another node's client."""

    owner_name = "b:7"


async def declare_all(vhost: VirtualHost) -> None:
    """A transient exchange, queue and bindings, and an exclusive queue."""
    vhost.declare_exchange(Exchange("x", "topic", **CONDITIONS))
    for properties, connection in (
        (QueueProperties("durable", durable=True), None),
        (QueueProperties("q", auto_delete=True), None),
        (QueueProperties("mine", exclusive=True), Connection()),
    ):
        declared = pending(vhost.declare_queue(properties, connection))
        assert declared is not None
        await declared


def bind_all(vhost: VirtualHost) -> None:
    """Bindings of these."""
    for queue in ("durable", "q", "mine"):
        vhost.bind(Binding("x", queue, "queue", "k"))
    vhost.bind(Binding("amq.direct", "q", "queue", "k"))
    vhost.bind(Binding("amq.fanout", "x", "exchange", ""))


def records(node: Node) -> list[bytes]:
    """Keys of the records of what is not durable."""
    return [key for key, _ in node.logs.metadata.scan(TRANSIENT_PREFIX)]


@pytest.fixture
async def leader(tmp_path: Path) -> AsyncIterator[ReplicatedNode]:
    async with replicated_node(tmp_path / "a") as node:
        await node.lead(1)
        yield node


async def followed(leader: ReplicatedNode, follower: ReplicatedNode) -> None:
    """The follower has all that the leader has made."""
    await leader.drained()
    known = follower.logs.journal.end.position
    blocks: list[ShardBlock] = [each for each in leader.made if each.position > known]
    await follower.follow(blocks)


async def test_a_node_on_its_own_writes_nothing_of_them(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        disk = SlowDisk()
        vhost = node.vhost_with(disk)
        connection = Connection()
        vhost.declare_exchange(Exchange("x", "topic", **CONDITIONS))
        for properties in (QueueProperties("q"), QueueProperties("mine", exclusive=True)):
            assert pending(vhost.declare_queue(properties, connection)) is None
            assert vhost.bind(Binding("x", properties.name, "queue", "k")) is None
        assert vhost.unbind(Binding("x", "q", "queue", "k")) is None
        assert pending(vhost.delete_queue(vhost.queues["q"])) is None
        vhost.connection_closed(connection)
        assert not vhost.routing.has_exchange("x")
        assert disk.futures == []


async def test_a_declaration_is_answered_when_it_is_committed(leader: ReplicatedNode) -> None:
    await leader.drained()
    leader.connected = False
    queue, declared = declare_queue(leader.vhost, QueueProperties("q"), None)
    assert declared is not None
    await leader.drained()
    assert not declared.done()
    assert queue.declaring is declared
    leader.logs.journal.commit(leader.logs.journal.durable)
    assert await declared is queue
    assert leader.vhost.routing.route("", b"q") == ("q",)


async def test_a_follower_routes_by_them_and_opens_nothing(
    leader: ReplicatedNode, tmp_path: Path
) -> None:
    async with replicated_node(tmp_path / "b") as follower:
        await declare_all(leader.vhost)
        bind_all(leader.vhost)
        await followed(leader, follower)
        vhost = follower.vhost
        assert vhost.routing.route("amq.fanout", b"k") == ("durable", "mine", "q")
        assert vhost.routing.route("amq.direct", b"k") == ("q",)
        assert list(follower.logs.partitions) == [leader.vhost.queues["durable"].number]
        vhost.stored.queues["mine"].check_access("/", "b:7")
        for other in ("", "b:8"):
            with pytest.raises(QueueLocked):
                vhost.stored.queues["mine"].check_access("/", other)
        vhost.stored.queues["q"].check_access("/", "")


async def test_what_the_leader_deletes_unasked_goes_everywhere(
    leader: ReplicatedNode, tmp_path: Path
) -> None:
    async with replicated_node(tmp_path / "b") as follower:
        await declare_all(leader.vhost)
        bind_all(leader.vhost)
        connection = leader.vhost.queues["mine"].owner
        leader.vhost.connection_closed(connection)
        leader.vhost.queues["q"].had_consumer = True
        leader.vhost.consumers_left("q")
        await followed(leader, follower)
        assert set(follower.vhost.stored.queues) == {"durable"}
        assert follower.vhost.routing.has_exchange("x")
        leader.vhost.delete_queue(leader.vhost.queues["durable"])
        await followed(leader, follower)
        assert not follower.vhost.routing.has_exchange("x")
        assert records(leader) == records(follower) == []


async def test_a_deleted_vhost_takes_them_along(leader: ReplicatedNode, tmp_path: Path) -> None:
    async with replicated_node(tmp_path / "b") as follower:
        await leader.vhosts.put(VhostRecord("v w"))
        vhost = leader.vhosts.get("v w")
        await declare_all(vhost)
        bind_all(vhost)
        await followed(leader, follower)
        assert len(records(follower)) == 8
        before = follower.vhosts.budget.bytes
        await leader.vhosts.delete("v w")
        await followed(leader, follower)
        assert records(leader) == records(follower) == []
        assert follower.vhosts.budget.bytes < before


async def test_the_next_leader_has_none_of_them_and_tells_its_followers(
    leader: ReplicatedNode, tmp_path: Path
) -> None:
    await declare_all(leader.vhost)
    bind_all(leader.vhost)
    await leader.drained()
    async with (
        replicated_node(tmp_path / "b") as following,
        replicated_node(tmp_path / "c") as third,
    ):
        made = list(leader.made)  # more may come meanwhile, and only the third node would have it
        for node in (following, third):
            await node.follow(made)
        assert len(records(following)) == 8
        await following.lead(2)
        assert set(following.vhost.queues) == {"durable"}
        assert not following.vhost.routing.has_exchange("x")
        declare_queue(following.vhost, QueueProperties("q", durable=True), None)
        await followed(following, third)
        assert records(following) == records(third) == []
        assert set(third.vhost.stored.queues) == {"durable", "q"}
        assert third.vhost.routing.route("", b"q") == ("q",)
        assert third.vhosts.budget.bytes == following.vhosts.budget.bytes


async def test_an_answer_waits_until_a_node_with_a_session_has_the_declaration(
    leader: ReplicatedNode, tmp_path: Path
) -> None:
    asked: list[tuple[str, int]] = []
    barrier = DefinitionBarrier[str](
        lambda session, position: asked.append((session, position)),
        lambda session: None,
        leader.turns.call_later,
    )
    async with replicated_node(tmp_path / "b") as follower:
        await followed(leader, follower)
        leader.writer.barrier = barrier.gate
        barrier.opened("session", "b", follower.follower.applied)
        _, declared = declare_queue(leader.vhost, QueueProperties("mine", exclusive=True), None)
        assert declared is not None
        await until(lambda: asked)
        assert not declared.done()
        await followed(leader, follower)
        assert follower.vhost.routing.route("", b"mine") == ("mine",)
        assert asked == [("session", follower.follower.applied)]
        assert not declared.done()
        barrier.applied(*asked[0])
        assert (await declared).name == "mine"


async def test_a_follower_that_is_started_again_knows_them(
    leader: ReplicatedNode, tmp_path: Path
) -> None:
    await declare_all(leader.vhost)
    bind_all(leader.vhost)
    await leader.drained()
    async with replicated_node(tmp_path / "b") as follower:
        await follower.follow(leader.made)
        left = await follower.killed("b+")
    async with replicated_node(left) as again:
        assert again.vhost.routing.route("amq.fanout", b"k") == ("durable", "mine", "q")
        assert again.vhost.stored.queues["mine"].owner == "b:7"
