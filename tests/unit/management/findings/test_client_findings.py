"""Connections that may not publish, and channels that keep what they got."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from unit.management.managed_node import Connection, ManagedNode

from routelog.management.findings.findings import list_findings


async def rows(node: ManagedNode, *of: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await node.ask(list_findings, *of))["findings"]
    return found


async def test_blocked_publishers_are_told_by_connection(node: ManagedNode) -> None:
    node.connections.open = [Connection(name, "ann", node.vhost) for name in ("a", "b")]
    (row,) = await rows(node)
    assert (row["kind"], row["count"]) == ("blocked", 2)
    assert row["text"] == (
        "2 connections may not publish, first of all a of user ann may not publish: memory"
    )
    assert [each["name"] for each in row["named"]] == ["a", "b"]
    answer = await node.ask(list_findings)
    assert answer["verdict"] == "Two connections may not publish"
    assert "nobody is blocked" not in answer["more"]


async def test_a_channel_that_keeps_messages_for_long_is_told_of(node: ManagedNode) -> None:
    connection = Connection("c", "ann", node.vhost)
    connection.blocked_by = ()
    node.connections.open = [connection]
    (channel,) = connection.channels
    for seconds, count in ((599.0, 0), (725.0, 1)):
        connection.channels = [replace(channel, oldest_held=("orders", seconds))]
        assert len(await rows(node)) == count
    (row,) = await rows(node)
    assert (row["kind"], row["named"][0]["messages"]) == ("unacked", 2)
    assert row["text"] == ("c does not acknowledge messages of orders for 12 min: 2 in channel 1")


async def test_connections_of_others_are_not_told_of(node: ManagedNode) -> None:
    node.connections.open = [Connection("a", "ann", node.vhost)]
    assert await rows(node, node.caller("bob", "management")) == []
    assert len(await rows(node, node.caller("ann", "management"))) == 1
    assert len(await rows(node, node.caller("bob", "monitoring"))) == 1


@pytest.mark.parametrize("count", [7, 10])
async def test_logins_that_are_refused_again_and_again_are_told_by_name(
    node: ManagedNode, count: int
) -> None:
    now = node.broker.clock.now() // 1_000
    amqp = {"event": "user.authentication.failure", "name": "eve", "peer_host": "10.0.0.7"}
    http = {"event": "http.refused", "status": 401, "name": "eve", "address": "10.0.0.8:4000"}
    lines = [{**amqp, "number": now - 700_000}]
    lines += [{**amqp, "number": now - 90_000 + at} for at in range(count - 3)]
    lines += [{**http, "number": now - 80_000 + at} for at in range(3)]
    lines.append({"event": "http.refused", "status": 401, "name": "", "number": now})
    node.log_lines = lines
    found = await rows(node)
    assert len(found) == (count >= 8)
    for row in found:
        assert row["text"] == "eve was refused 10 times in ten minutes, most from 10.0.0.7"
        assert row["since"] == pytest.approx(now / 1_000 - 90)
    assert await rows(node, node.caller("m", "monitoring")) == []
