"""Policies of a vhost at work: queues and exchanges that come and go, restarts included."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Mapping
from pathlib import Path

import pytest
from queue_samples import Node, running_node

from log_backend import Durability
from vhosts import Policy, PolicyNotFound, Queue, QueueProperties, VirtualHost
from vhosts.vhost import DELETIONS_MAX
from vhosts.vhost_policies import FOLLOWERS_MAX

CONNECTION = object()
STREAM = {"x-queue-type": "stream"}


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    async with running_node(tmp_path) as running:
        yield running


@pytest.fixture
def vhost(node: Node) -> VirtualHost:
    return node.vhost


async def declare(
    vhost: VirtualHost, name: str = "q", arguments: Mapping[str, object] | None = None
) -> Queue:
    queue, done = vhost.declare_queue(
        QueueProperties(name, True, arguments=arguments or {}), CONNECTION
    )
    if done is not None:
        await done
    return queue


async def test_a_policy_reaches_queues_that_are_there_and_those_that_come(
    vhost: VirtualHost,
) -> None:
    before = await declare(vhost, "before")
    await vhost.policies.put(Policy("p", ".*", {"max-length": 10}))
    after = await declare(vhost, "after", {"x-max-length": 5})
    assert before.effective.values == {"x-max-length": 10}
    assert before.rules is not None
    assert before.rules.length is not None
    assert before.rules.length.options.count_max == 10
    assert after.effective.values == {"x-max-length": 5}
    await vhost.policies.put(Policy("p", ".*", {"max-length": 3}))
    assert after.effective.values == {"x-max-length": 3}
    await vhost.policies.delete("p", operator=False)
    assert before.rules is None
    assert after.effective.values == {"x-max-length": 5}
    assert after.effective.policy is None


async def test_a_policy_that_changes_no_value_begins_nothing_anew(vhost: VirtualHost) -> None:
    queue = await declare(vhost)
    await vhost.policies.put(Policy("p", ".*", {"expires": 60_000}))
    assert queue.rules is not None
    lease = queue.rules.lease  # begun anew by each change of what the queue goes by
    assert lease is not None
    await vhost.policies.put(Policy("first", ".*", {"expires": 60_000}, 5))
    assert queue.rules.lease is lease
    assert queue.effective.policy is not None
    assert queue.effective.policy.name == "first"


async def test_retention_and_durability_follow_at_once(vhost: VirtualHost) -> None:
    stream = await declare(vhost, "stream", STREAM)
    queue = await declare(vhost, "queue")
    definition = {"max-age": "1h", "max-length-bytes": 1000, "durability": "os"}
    await vhost.policies.put(Policy("p", ".*", definition))
    retention = stream.partitions[0].log.retention
    assert retention is not None
    assert (retention.age_max, retention.bytes_max) == (3_600_000_000, 1000)
    assert queue.durability is stream.durability is Durability.OS
    assert queue.partitions[0].log.retention is None
    await vhost.policies.delete("p", operator=False)
    retention = stream.partitions[0].log.retention
    assert retention is not None
    assert (retention.age_max, retention.bytes_max) == (None, None)
    assert queue.durability is Durability.DISK


async def test_a_queue_that_keeps_nothing_promises_nothing_by_policy(vhost: VirtualHost) -> None:
    queue, _ = vhost.declare_queue(QueueProperties("q"), CONNECTION)
    await vhost.policies.put(Policy("p", ".*", {"durability": "disk"}))
    assert queue.durability is Durability.MEMORY


async def test_an_alternate_exchange_of_a_policy_gets_what_is_routed_nowhere(
    vhost: VirtualHost,
) -> None:
    await declare(vhost)
    for name in ("early", "spare", "own"):
        arguments = {"alternate-exchange": "nowhere"} if name == "own" else {}
        vhost.declare_exchange(
            name, "fanout", durable=False, auto_delete=False, internal=False, arguments=arguments
        )
    vhost.bind_queue("q", "spare", "", {})
    assert vhost.routing.route("early", b"") == ()
    await vhost.policies.put(Policy("p", "^(early|late|own)$", {"alternate-exchange": "spare"}))
    vhost.declare_exchange(
        "late", "fanout", durable=False, auto_delete=False, internal=False, arguments={}
    )
    routes = {name: vhost.routing.route(name, b"") for name in ("early", "late", "own")}
    assert routes == {"early": ("q",), "late": ("q",), "own": ()}
    await vhost.policies.delete("p", operator=False)
    assert vhost.routing.route("early", b"") == ()


async def turns_of(work: Coroutine[None, None, None]) -> int:
    """How many turns of the event loop something takes at least: others had so many."""
    task = asyncio.ensure_future(work)
    turns = 0
    while not task.done():
        await asyncio.sleep(0)
        turns += 1
    await task
    return turns


async def test_many_exchanges_follow_a_policy_and_go_in_many_turns(vhost: VirtualHost) -> None:
    count = 5 * FOLLOWERS_MAX
    for number in range(count):
        kind = {"durable": False, "auto_delete": False, "internal": False, "arguments": {}}
        vhost.declare_exchange(f"x{number}", "direct", **kind)
    assert await turns_of(vhost.policies._follow_all()) > 5
    assert await turns_of(vhost.clear()) > count // DELETIONS_MAX
    assert all(each in vhost.routing.predeclared for each in vhost.routing.exchanges())


async def test_policies_are_there_after_a_restart(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        await declare(node.vhost, "a/b", STREAM)
        await node.vhost.policies.put(Policy("p/ é", "a/", {"max-age": "1h"}, 3, "streams"))
        await node.vhost.policies.put(Policy("o", "", {"expires": 5}, is_operator=True))
        await node.vhost.policies.put(Policy("gone", "", {"expires": 1}))
        await node.vhost.policies.delete("gone", operator=False)
    async with running_node(tmp_path) as node:
        queue = node.vhost.queues["a/b"]
        assert queue.effective.values == STREAM | {"x-max-age": "1h", "x-expires": 5}
        retention = queue.partitions[0].log.retention
        assert retention is not None
        assert retention.age_max == 3_600_000_000
        with pytest.raises(PolicyNotFound):
            await node.vhost.policies.delete("gone", operator=False)
