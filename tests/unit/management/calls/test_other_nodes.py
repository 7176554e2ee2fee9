"""What the leader's API says of clients of other nodes: these answer the same calls, as it asks them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from unit.management.managed_node import Connection, ManagedNode, managed_node

from routelog.broker import ProcessState
from routelog.management.calls.answer import Listing
from routelog.management.calls.failures import Refused
from routelog.management.calls.listing import list_query, listed
from routelog.management.findings.findings import list_findings
from routelog.management.server.api_calls import ApiCalls
from routelog.management.server.node_answers import NodeAnswers
from routelog.management.views import (
    connections,
    consumers,
    exchange_views,
    node_views,
    queues,
    virtual_hosts,
)

LEADER, FRONT = "c", "f"  # with which names of connections begin


def connection(name: str, user: str, of: ManagedNode, queue: str = "") -> Connection:
    """An open connection of a node."""
    of.connections.open.append(Connection(name, user, of.vhost, queue))
    return of.connections.open[-1]


@pytest.fixture
async def front(tmp_path: Path) -> AsyncIterator[ManagedNode]:
    """Another node, which serves clients."""
    async with managed_node(tmp_path / "front") as front:
        await front.queue("q")
        connection("f1", "u", front, "q")
        connection("f2", "other", front)
        yield front


@pytest.fixture
async def leader(node: ManagedNode, front: ManagedNode) -> ManagedNode:
    """The node that leads."""
    await node.queue("q")
    connection("c1", "u", node, "q")
    calls = ApiCalls(front.broker, front.tokens, front.sampler)
    node.others["front"] = NodeAnswers(calls, front.users.permissions).pieces
    return node


def names(rows: list[dict[str, Any]]) -> list[str]:
    """What rows are called."""
    return [row["name"] for row in rows]


async def test_lists_have_the_rows_of_all_nodes(leader: ManagedNode) -> None:
    assert names(await leader.ask(connections.list_connections)) == ["c1", "f1", "f2"]
    assert names(await leader.ask(connections.list_connections_of_vhost, vhost="/")) == [
        "c1",
        "f1",
        "f2",
    ]
    of_user = await leader.ask(connections.list_connections_of_user, name="u")
    assert names(of_user) == ["c1", "f1"]
    assert names(await leader.ask(connections.list_channels)) == ["c1 (1)", "f1 (1)", "f2 (1)"]
    channels = await leader.ask(connections.list_channels_of_vhost, vhost="/")
    assert names(channels) == ["c1 (1)", "f1 (1)", "f2 (1)"]
    for rows in (
        await leader.ask(consumers.list_consumers),
        await leader.ask(consumers.list_consumers_of_vhost, vhost="/"),
    ):
        assert [row["channel_details"]["name"] for row in rows] == ["c1 (1)", "f1 (1)"]


async def test_other_nodes_show_what_the_caller_may_see(leader: ManagedNode) -> None:
    own = leader.caller("other", "management")
    assert names(await leader.ask(connections.list_connections, own)) == ["f2"]
    monitor = leader.caller("m", "monitoring")
    assert len(await leader.ask(connections.list_connections, monitor)) == 3
    with pytest.raises(Refused, match="not authorised to access this"):
        await leader.ask(connections.get_connection, own, name="f1")


async def test_rows_of_all_nodes_are_sorted_filtered_and_paged_together(
    leader: ManagedNode, front: ManagedNode
) -> None:
    connection("C9", "u", front)
    listing = connections.list_connections(leader.call())

    async def page(**query: str) -> str:
        assert isinstance(listing, Listing)
        pieces = await listed(listing, list_query(query))
        return b"".join([piece async for piece in pieces]).decode()

    found = await page(sort="name", sort_reverse="true", page="1", page_size="2", columns="name")
    assert '"total_count":4' in found
    assert '"items":[{"name":"f2"},{"name":"f1"}]' in found
    listing = connections.list_connections(leader.call())
    found = await page(page="1", name="c", columns="name,node")
    assert '"filtered_count":2' in found
    assert '{"name":"c1","node":"routelog@here"},{"name":"C9","node":"routelog@here"}' in found


async def test_certificates_of_other_nodes_expire_as_well(
    leader: ManagedNode, front: ManagedNode
) -> None:
    async def expired() -> Any:
        return await leader.ask(node_views.check_certificates, within="4", unit="weeks")

    assert await expired() == {"status": "ok"}
    soon = datetime.now(UTC) + timedelta(days=10)
    front.expiries = {"amqp": {Path("/f.pem"): soon}, "clustering": {Path("/n.pem"): soon}}
    leader.expiries = {"amqp": {Path("/c.pem"): soon}}
    leader.silent = ["away"]
    status, row = await expired()
    assert row["reason"] == "Certificates expiring; away did not answer"
    found = [(each["protocol"], each["certfile"]) for each in row["expired"]]
    assert (status, found) == (
        503,
        [("amqp", "/c.pem"), ("amqp", "/f.pem"), ("clustering", "/n.pem")],
    )


async def test_certificates_of_a_node_that_does_not_answer_are_not_well(
    leader: ManagedNode,
) -> None:
    leader.silent = ["away", "gone"]
    status, row = await leader.ask(node_views.check_certificates, within="4", unit="weeks")
    assert (status, row["status"], row["expired"]) == (503, "failed", [])
    assert row["reason"] == "away and gone did not answer"


async def test_one_thing_is_found_at_the_node_that_has_it(leader: ManagedNode) -> None:
    assert (await leader.ask(connections.get_connection, name="f2"))["user"] == "other"
    (channel,) = await leader.ask(connections.list_channels_of_connection, name="f2")
    assert channel["name"] == "f2 (1)"
    channel = await leader.ask(connections.get_channel, channel="f1 (1)")
    assert [row["consumer_tag"] for row in channel["consumer_details"]] == ["tag"]
    for handler, parts in (
        (connections.get_connection, {"name": "x"}),
        (connections.delete_connection, {"name": "x"}),
        (connections.list_channels_of_connection, {"name": "x"}),
        (connections.get_channel, {"channel": "x (1)"}),
    ):
        with pytest.raises(Refused, match=r"^no (connection|channel) 'x") as error:
            await leader.ask(handler, **parts)
        assert error.value.status == 404


async def test_connections_of_other_nodes_are_closed_with_their_reason(
    leader: ManagedNode, front: ManagedNode
) -> None:
    first, second = front.connections.open
    why = {"X-Reason": "maintenance"}
    monitor = leader.caller("m", "monitoring")
    with pytest.raises(Refused, match="not authorised to access object"):
        await leader.ask(connections.delete_connection, monitor, name="f2")
    assert await leader.ask(connections.delete_connection, name="f2", headers=why) == 204
    assert second.closed_because == "maintenance"
    (own,) = leader.connections.open
    assert await leader.ask(connections.delete_connections_of_user, name="u") == 204
    assert (own.closed_because, first.closed_because) == (connections.REASON, connections.REASON)
    assert front.connections.open == []


async def test_a_queue_has_the_consumers_and_deliveries_of_all_nodes(
    leader: ManagedNode, front: ManagedNode
) -> None:
    queue = leader.vhost.queues["q"]
    channel = front.connections.open[0].channels[0].counters
    front.vhost.queues["q"].counters.owner = front.vhost.queues["q"]
    front.vhost.queues["q"].counters.delivered(channel, 3, True, False)
    queue.counters.delivered(leader.connections.open[0].channels[0].counters, 4, True, False)

    class Consumed:
        name, vhost, consumer_count = "q", "/", 2

    rows = await consumers.consumer_rows_of_queue(leader.call(name="q", vhost="/"), Consumed())
    assert [row.channel_details.name for row in rows] == ["c1 (1)", "f1 (1)"]
    queue.counters.owner = queue
    row = await leader.ask(queues.get_queue, name="q", vhost="/")
    delivered = {
        each["channel_details"]["name"]: each["stats"]["deliver_no_ack"]
        for each in row["deliveries"]
    }
    assert delivered == {"c1 (1)": 4, "f1 (1)": 3}


async def test_an_exchange_has_the_publishers_of_all_nodes(
    leader: ManagedNode, front: ManagedNode
) -> None:
    for node, count in ((leader, 2), (front, 5)):
        node.connections.open[0].channels[0].counters.published_to(b"amq.topic", count)
    row = await leader.ask(exchange_views.get_exchange, name="amq.topic", vhost="/")
    published = {
        each["channel_details"]["name"]: each["stats"]["publish"] for each in row["incoming"]
    }
    assert published == {"c1 (1)": 2, "f1 (1)": 5}


async def test_totals_are_those_of_all_nodes(leader: ManagedNode) -> None:
    totals = (await leader.ask(node_views.overview))["object_totals"]
    assert (totals["connections"], totals["channels"], totals["consumers"]) == (3, 3, 2)
    own = await leader.ask(node_views.overview, leader.caller("other", "management"))
    assert own["object_totals"]["connections"] == 1


async def test_a_node_has_the_clients_of_its_processes_and_not_of_other_nodes(
    leader: ManagedNode, front: ManagedNode
) -> None:
    for node, count in ((leader, 2), (front, 5)):
        node.connections.open[0].channels[0].counters.published_to(b"amq.topic", count)
        node.node.vhosts.counters.churn.connection_created += count
    for processes, expected in ((0, (1, 2, 2)), (2, (3, 7, 7))):
        leader.processes = [ProcessState(each, each, True, 1) for each in range(processes)]
        (row,) = await leader.ask(node_views.list_nodes)
        counts = row["sockets_used"], row["connection_created"], row["message_stats"]["publish"]
        assert counts == expected


async def test_clients_of_all_nodes_are_told_of(leader: ManagedNode) -> None:
    answer = await leader.ask(list_findings)
    (blocked,) = answer["findings"]
    assert blocked["text"].startswith("3 connections may not publish, first of all c1")
    assert names(blocked["named"]) == ["c1", "f1", "f2"]


async def test_logins_that_several_nodes_refuse_are_counted_together(
    leader: ManagedNode, front: ManagedNode
) -> None:
    now = leader.broker.clock.now() // 1_000
    event = {"event": "user.authentication.failure", "number": now}

    def refused(name: str, *places: str) -> list[dict[str, Any]]:
        return [{**event, "name": name, "peer_host": place} for place in places]

    leader.log_lines = refused("eve", *("a",) * 3, *("b",) * 2) + refused("ann", "a")
    front.log_lines = refused("eve", *("b",) * 4) + refused("ann", *("a",) * 6)
    found = {row["kind"]: row for row in (await leader.ask(list_findings))["findings"]}
    assert found["login"]["text"] == "eve was refused 9 times in ten minutes, most from b"
    front.log_lines += refused("ann", *("c",) * 20)
    found = {row["kind"]: row for row in (await leader.ask(list_findings))["findings"]}
    assert (found["login"]["count"], names(found["login"]["named"])) == (2, ["ann", "eve"])


async def test_a_silent_node_is_a_finding_and_its_rows_are_missing(leader: ManagedNode) -> None:
    leader.silent = ["gone"]
    assert len(await leader.ask(connections.list_connections)) == 3
    found = {row["kind"]: row for row in (await leader.ask(list_findings))["findings"]}
    assert found["silent"]["text"] == "gone does not tell of its clients: lists are without them"
    assert (await leader.ask(connections.get_connection, name="f1"))["name"] == "f1"
    with pytest.raises(Refused, match="gone did not answer") as error:
        await leader.ask(connections.get_connection, name="x")
    assert error.value.status == 503
    with pytest.raises(Refused, match="gone did not answer"):
        await leader.ask(connections.delete_connections_of_user, name="u")
    assert all(each.user != "u" for each in leader.connections.open)


async def test_a_long_answer_comes_in_pieces(
    leader: ManagedNode, front: ManagedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("routelog.management.server.node_answers.ANSWER_PIECE_BYTES", 2_000)
    for at in range(20):
        connection(f"f of {at}", "u", front)
    rows = await leader.ask(connections.list_connections)
    assert len({row["name"] for row in rows}) == 23


async def test_what_clients_of_all_nodes_publish_is_summed(
    leader: ManagedNode, front: ManagedNode
) -> None:
    for node, count in ((leader, 2), (front, 5)):
        channel = node.connections.open[0].channels[0].counters
        channel.published_to(b"amq.topic", count)
        channel.confirmed(count)
        node.vhost.counters.exchange("amq.topic").published(count, 2 * count)
        node.node.vhosts.counters.churn.connection_created += count
    query = "msg_rates_age=60&msg_rates_incr=5"
    overview = await leader.ask(node_views.overview, query=query)
    assert overview["churn_rates"]["connection_created"] == 7
    exchange = await leader.ask(exchange_views.get_exchange, name="amq.topic", vhost="/")
    assert exchange["message_stats"]["publish_out"] == 14
    listed = await leader.ask(exchange_views.list_exchanges)
    stats = {row["name"]: row.get("message_stats") for row in listed}
    assert (stats["amq.topic"]["publish_in"], stats["amq.fanout"]) == (7, None)
    (vhost,) = await leader.ask(virtual_hosts.list_vhosts)
    one = await leader.ask(virtual_hosts.get_vhost, vhost="/")
    for row in (overview, vhost, one):
        assert (row["message_stats"]["publish"], row["message_stats"]["confirm"]) == (7, 7)
    samples = overview["message_stats"]["publish_details"]["samples"]
    assert len(samples) == 13
    assert samples[0]["sample"] in (0, 7)  # of nodes that were sampled both, or none


async def test_statistics_that_are_not_wanted_are_not_asked_for(leader: ManagedNode) -> None:
    leader.silent = ["gone"]
    leader.others.clear()
    asked: list[bytes] = []

    async def ask(question: bytes) -> dict[str, None]:
        asked.append(question)
        return {}

    leader.ask_nodes = ask  # type: ignore[method-assign]
    await leader.ask(exchange_views.list_exchanges, query="disable_stats=true")
    assert asked == []
