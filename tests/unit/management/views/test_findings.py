"""What is wrong, and what is worth a look."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from support.queue_samples import records
from unit.management.managed_node import ManagedNode

from routelog.exchanges import Binding
from routelog.management.views import findings
from routelog.management.views.findings import list_findings
from routelog.mirror_cluster import ReplicaState

HURT = "Node hurt has damaged queues: it takes a copy of a node that is whole."


async def found(node: ManagedNode, *of: Any) -> list[tuple[str, str, str]]:
    rows = (await node.ask(list_findings, *of))["findings"]
    return [(row["severity"], row["kind"], row["text"]) for row in rows]


async def test_a_node_without_trouble_has_none(node: ManagedNode) -> None:
    (await node.queue("s", x_queue_type="stream")).publish(records("a"), True)
    await node.queue("q")
    assert await node.ask(list_findings) == {"findings": [], "queues": 2}


async def test_what_is_wrong_with_the_node_stands_first(node: ManagedNode) -> None:
    (await node.queue("q")).publish(records("a"), True)
    node.failure, node.alarms = "no space left", ["low on disk"]
    now = datetime.fromtimestamp(node.broker.clock.now() / 1e6, UTC)
    expiry, old = now + timedelta(days=3), now - timedelta(days=3)
    node.expiries = {"https": {Path("/a.pem"): expiry, Path("/b.pem"): old}}
    node.expiries["amqp/ssl"] = {Path("/c.pem"): now + timedelta(days=31)}
    node.cluster.nodes += [
        ReplicaState("gone", is_running=False, is_in_sync=False, blocks_behind=None),
        ReplicaState("late", is_running=True, is_in_sync=False, blocks_behind=9),
        ReplicaState("hurt", is_damaged=True),
    ]
    node.cluster.followers = [
        {"name": "s", "is_connected": False},
        {"name": "t", "is_connected": True},
    ]
    failed = (
        "The log has failed: no space left. Nothing is stored until the broker is started again."
    )
    assert await found(node) == [
        ("wrong", "log", failed),
        ("wrong", "alarm", "Publishers wait: low on disk."),
        ("wrong", "certificate", f"The certificate /b.pem of https expired on {old:%Y-%m-%d}."),
        ("wrong", "replica", "Node gone does not run."),
        ("wrong", "replica", "Node late does not have all that was confirmed."),
        ("wrong", "replica", HURT),
        ("look", "certificate", f"The certificate /a.pem of https expires on {expiry:%Y-%m-%d}."),
        ("look", "standby", "Standby s is not connected."),
        ("look", "backlog", "Queue q has no consumer, and messages: 1."),
    ]


async def test_dead_letters_are_told_from_other_messages(node: ManagedNode) -> None:
    await node.queue("a", x_dead_letter_exchange="", x_dead_letter_routing_key="by-key")
    await node.queue("b", x_dead_letter_exchange="amq.fanout")
    await node.queue("c", x_dead_letter_exchange="")  # back to where they died
    await node.queue("d", x_dead_letter_exchange="none")
    for name in ("by-key", "by-binding", "other"):
        await node.queue(name)
    for name in ("by-key", "by-binding", "other", "c"):
        node.vhost.queues[name].publish(records(*"xx"), True)
    done = node.vhost.restore_binding(Binding("amq.fanout", "by-binding", "queue", "", {}))
    assert done is not None
    await done
    assert await found(node) == [
        ("look", "dead letters", "Queue by-key holds dead letters: 2."),
        ("look", "dead letters", "Queue by-binding holds dead letters: 2."),
        ("look", "backlog", "Queue other has no consumer, and messages: 2."),
        ("look", "backlog", "Queue c has no consumer, and messages: 2."),
    ]


async def test_a_damaged_queue_is_wrong(node: ManagedNode) -> None:
    queue = await node.queue("q")
    queue.partitions[0].log.blocked_from = 0
    text = "Queue q is damaged on the disk: a part is not delivered."
    assert await found(node) == [("wrong", "quarantine", text)]


async def test_the_largest_of_very_many_stand_for_all(
    node: ManagedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(findings, "OF_A_KIND_MAX", 2)
    for name, count in (("a", 1), ("b", 3), ("c", 2), ("d", 1)):
        (await node.queue(name)).publish(records(*"x" * count), True)
    assert [text for _, _, text in await found(node)] == [
        "Queue b has no consumer, and messages: 3.",
        "Queue c has no consumer, and messages: 2.",
        "The same goes for 2 more queues.",
    ]


async def test_queues_of_others_are_not_told_of(node: ManagedNode) -> None:
    (await node.queue("q")).publish(records("a"), True)
    assert await found(node, node.caller("stranger", "management")) == []
    assert len(await found(node, await node.user("u", "management"))) == 1
