"""Whether anything is wrong: findings by kind, the worst first, and a sentence."""

from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from support.queue_samples import records
from unit.management.managed_node import ManagedNode, managed_node

from routelog.management.findings.findings import list_findings
from routelog.mirror_cluster import ReplicaState


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[ManagedNode]:
    async with managed_node(tmp_path, clocked=True) as clocked:
        yield clocked


async def found(node: ManagedNode, *of: Any) -> list[tuple[str, str, int]]:
    rows = (await node.ask(list_findings, *of))["findings"]
    return [(row["severity"], row["kind"], row["count"]) for row in rows]


async def only(node: ManagedNode) -> dict[str, Any]:
    (row,) = (await node.ask(list_findings))["findings"]
    return dict(row)


async def test_a_node_without_trouble_has_none(node: ManagedNode) -> None:
    (await node.queue("s", x_queue_type="stream")).publish(records(*"aaaa"), True)
    (await node.queue("q")).publish(records("one"), True)
    assert await node.ask(list_findings) == {
        "findings": [],
        "queues": 2,
        "verdict": "All is well",
        "more": "2 queues were looked at, nobody is blocked, nothing is damaged.",
        "disk_days": None,
    }


async def test_what_is_wrong_stands_first_and_the_sentence_begins_with_it(
    node: ManagedNode,
) -> None:
    (await node.queue("q")).publish(records(*"aaaa"), True)
    node.failure, node.alarms = "no space left", ["low on disk"]
    now = datetime.fromtimestamp(node.broker.clock.now() / 1e6, UTC)
    days: Callable[[int], datetime] = lambda count: now + timedelta(days=count)  # noqa: E731
    node.expiries = {"https": {Path("/a.pem"): days(3), Path("/b.pem"): days(-3)}}
    node.expiries["amqp/ssl"] = {Path("/c.pem"): days(31)}
    node.cluster.nodes += [
        ReplicaState("gone", is_running=False, is_in_sync=False, blocks_behind=None),
        ReplicaState("late", is_running=True, is_in_sync=False, blocks_behind=9),
        ReplicaState("hurt", is_damaged=True),
    ]
    node.cluster.followers = [
        {"name": "s", "is_connected": False},
        {"name": "t", "is_connected": True},
    ]
    answer = await node.ask(list_findings)
    assert [(row["severity"], row["kind"], row["count"]) for row in answer["findings"]] == [
        ("wrong", "log", 1),
        ("wrong", "alarm", 1),
        ("wrong", "replica", 3),
        ("wrong", "certificate", 2),
        ("look", "standby", 1),
        ("look", "no consumer", 1),
    ]
    texts = [row["text"] for row in answer["findings"]]
    failed = (
        "The log has failed: no space left. Nothing is stored until the broker is started again"
    )
    assert texts[:2] == [failed, "Publishers wait: low on disk"]
    assert texts[2] == "3 nodes are not in sync, first of all gone does not run"
    named = answer["findings"][2]["named"]
    assert [each["name"] for each in named] == ["gone", "late", "hurt"]
    assert texts[3].startswith("2 certificates end, first of all /b.pem of https expired 3 d ago")
    assert (answer["verdict"], answer["more"]) == (
        "The log has failed",
        "and publishers wait, three nodes are not in sync, two certificates end, and 2 more. ",
    )


async def test_a_damaged_queue_is_wrong(node: ManagedNode) -> None:
    queue = await node.queue("q")
    queue.partitions[0].log.blocked_from = 0
    row = await only(node)
    assert (row["severity"], row["kind"]) == ("wrong", "quarantine")
    assert row["text"] == "q is damaged: a part is not delivered"
    assert (row["named"][0]["vhost"], row["named"][0]["name"]) == ("/", "q")


async def test_a_bucket_that_does_not_answer_is_wrong(node: ManagedNode) -> None:
    node.remote_failure = "no route to the bucket"
    row = await only(node)
    assert (row["severity"], row["kind"]) == ("wrong", "remote storage")
    assert row["text"].endswith("readers of what is there alone wait: no route to the bucket")


async def test_queues_of_others_are_not_told_of(node: ManagedNode) -> None:
    (await node.queue("q")).publish(records(*"aaaa"), True)
    assert await found(node, node.caller("stranger", "management")) == []
    assert len(await found(node, await node.user("u", "management"))) == 1
