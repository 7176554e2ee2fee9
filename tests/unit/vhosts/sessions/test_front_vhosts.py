"""A node's vhosts while another one leads, and when it leads itself."""

from __future__ import annotations

import asyncio

import pytest
from support.queue_samples import Node, bodies, give_back, records
from unit.vhosts.sessions.session_pipe import ScriptedLeader, settled_down

from routelog.exchanges import Exchange, QueueNotFound, held_name
from routelog.log_backend import Change
from routelog.vhosts import FrontConnections, FrontVhosts, QueueProperties
from routelog.vhosts.errors import SessionLost
from routelog.vhosts.publishing.stateful_route import StatefulRoute
from routelog.vhosts.queues.queue_handle import value_of
from routelog.vhosts.sessions.remote_exchange import RemoteExchange, RemoteRoute
from routelog.vhosts.sessions.remote_queue import RemoteQueue
from routelog.vhosts.stored.topology_record import exchange_change
from routelog.vhosts.vhost.route_targets import AT_ONCE_MAX
from routelog.vhosts.vhost.stored_topology import StoredQueue


@pytest.fixture
def front(node: Node) -> FrontVhosts:
    """A front whose leader is nobody."""
    connections = FrontConnections("front", 1)
    link = ScriptedLeader().link
    return FrontVhosts(node.vhosts, link, connections, lambda connections, reason: None)


def stored(name: str, number: int) -> StoredQueue:
    """What is stored of a queue."""
    return StoredQueue(QueueProperties(name, durable=True), (number,), paused=False)


async def test_exchanges_with_state_are_the_leaders_until_this_node_leads(
    node: Node, front: FrontVhosts
) -> None:
    vhost, name = node.vhost, held_name("x")
    front.begin()
    assert isinstance(vhost.passage(), RemoteRoute)
    known = vhost.targets.named(name)
    assert isinstance(known, RemoteExchange)
    deleted = exchange_change("/", Exchange("x", "x-recent-history"), deleted=True)
    vhost.stored.apply(Change(deleted.key, None), None)
    assert vhost.targets.named(name) is not known  # another one may be declared
    front.freeze()
    assert isinstance(vhost.targets.named(name), RemoteExchange)
    front.route_here()
    assert type(vhost.passage()) is StatefulRoute
    with pytest.raises(KeyError):
        vhost.targets.named(name)
    front.lead()


async def test_what_vhosts_publish_stays_here_before_clients_go_on(
    node: Node, front: FrontVhosts
) -> None:
    declared = node.vhost.declare_queue(QueueProperties("q", durable=True), None)
    queue = await declared if isinstance(declared, asyncio.Future) else declared
    node.vhost.stored.queues["q"] = stored("q", queue.number)
    front.begin()
    assert isinstance(node.vhost.targets.named("q"), RemoteQueue)
    front.freeze()
    front.route_here()
    assert node.vhost.targets.named("q") is queue
    assert node.vhost.definitions is not node.vhost
    front.lead()
    assert node.vhost.definitions.queue("q", None) is queue


async def test_a_route_to_many_queues_leads_to_all_that_were_there(
    node: Node, front: FrontVhosts
) -> None:
    vhost = node.vhost
    names = [f"q{number}" for number in range(1, AT_ONCE_MAX + 10)]
    queues = vhost.stored.queues
    queues |= {name: stored(name, number) for number, name in enumerate(names[:-1], 1)}
    front.begin()
    queues[names[-1]] = stored(names[-1], len(names))
    vhost.stored.on_queue(names[-1])
    found = vhost.targets.gradually(tuple(names))
    queues["q5"] = stored("q5", 1_000)  # deleted, and declared again
    vhost.stored.on_queue("q5")
    assert [each.name for each in found] == [name for name in names if name != "q5"]


async def test_a_vhost_that_is_deleted_is_let_go(node: Node, front: FrontVhosts) -> None:
    front.begin()
    await node.vhosts.add("gone")
    await node.vhosts.delete("gone")
    await node.vhosts.add("next")
    assert [vhost.name for vhost in front._queues] == ["/", "next"]


@pytest.mark.parametrize("was_open", [False, True])
async def test_calls_that_no_leader_has_seen_are_answered_by_the_queue_of_this_node(
    node: Node, was_open: bool
) -> None:
    leader = ScriptedLeader()
    front = FrontVhosts(node.vhosts, leader.link, FrontConnections("front", 1), lambda *why: None)
    queue = await value_of(node.vhost.declare_queue(QueueProperties("q", durable=True), None))
    queue.publish(records("a", "b", "c"), True)
    node.vhost.stored.queues["q"] = stored("q", queue.number)
    front.begin()
    handle = node.vhost.targets.named("q")
    assert isinstance(handle, RemoteQueue)
    if was_open:
        leader.open()
    got, gone, purged = handle.get(), handle.get(), handle.purge()
    counted = node.vhost.definitions.queue_declared("q", None)
    await settled_down()
    gone.cancel()
    front.freeze()
    front.route_here()
    front.lead()
    if was_open:  # they may have been carried out
        for each in (got, purged):
            with pytest.raises(SessionLost):
                await each
        assert await value_of(counted) == (3, 0)
        assert queue.ready == 3
        return
    delivery = await got
    assert delivery is not None
    assert bodies(delivery) == ["a"]
    assert (await purged, await value_of(counted)) == (2, (0, 0))
    assert (handle.ready, queue.ready) == (0, 0)
    late = handle.get()
    give_back(delivery)
    assert await late is not None
    queue.delete()
    with pytest.raises(QueueNotFound):
        await handle.get()
