"""Connections, channels and consumers over HTTP."""

import asyncio

import pytest
from support.loop_services import share_a_slow_loop
from unit.management.managed_node import Connection, ManagedNode

from routelog.management.calls.failures import Refused
from routelog.management.views import connections, consumers


@pytest.fixture
async def busy(node: ManagedNode) -> ManagedNode:
    """Two users have a connection each; "u" consumes from queue "q"."""
    await node.queue("q")
    own, other = Connection("c1", "u", node.vhost, "q"), Connection("c2", "other", node.vhost)
    node.connections.open = [own, other]
    return node


async def test_everybody_sees_his_own_and_monitors_all(busy: ManagedNode) -> None:
    own = busy.caller("u", "management")
    for caller, names in ((busy.admin, ["c1", "c2"]), (own, ["c1"])):
        for handler in (connections.list_connections, connections.list_connections_of_vhost):
            assert [row["name"] for row in await busy.ask(handler, caller)] == names
        for handler in (connections.list_channels, connections.list_channels_of_vhost):
            rows = await busy.ask(handler, caller)
            assert [row["name"] for row in rows] == [f"{name} (1)" for name in names]
    (row,) = await busy.ask(connections.list_connections_of_user, name="other")
    assert row["user_provided_name"] == "the c2"
    assert await busy.ask(connections.list_connections_of_user, own, name="other") == []


async def test_one_connection_is_shown_to_who_may_see_it(busy: ManagedNode) -> None:
    row = await busy.ask(connections.get_connection, name="c1")
    assert (row["peer_host"], row["timeout"], row["node"]) == ("10.0.0.9", 60, "routelog@here")
    assert (row["state"], row["blocked_by"]) == ("blocked", ["memory"])
    with pytest.raises(Refused, match="not authorised to access this"):
        await busy.ask(connections.get_connection, busy.caller("other"), name="c1")
    with pytest.raises(Refused, match=r"^no "):
        await busy.ask(connections.get_connection, name="c3")


async def test_others_have_their_turn_while_one_of_many_is_looked_for(busy: ManagedNode) -> None:
    last = busy.connections.open[-1]
    busy.connections.open = [Connection(f"of {at}", "u", busy.vhost) for at in range(20_000)]
    busy.connections.open.append(last)
    share_a_slow_loop()
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    for handler, part in (
        (connections.get_connection, {"name": "c2"}),
        (connections.get_channel, {"channel": "c2 (1)"}),
    ):
        turns = 0
        counting = asyncio.ensure_future(count())
        await busy.ask(handler, **part)
        counting.cancel()
        assert turns > 2


async def test_a_connection_is_closed_with_its_reason(busy: ManagedNode) -> None:
    first, second = busy.connections.open
    assert await busy.ask(connections.delete_connection, name="c1") == 204
    assert first.closed_because == connections.REASON
    why = {"X-Reason": "maintenance"}
    assert await busy.ask(connections.delete_connections_of_user, name="other", headers=why) == 204
    assert second.closed_because == "maintenance"
    assert busy.connections.open == []


async def test_who_may_look_at_connections_of_others_may_not_end_them(busy: ManagedNode) -> None:
    monitor = busy.caller("m", "monitoring")
    for handler in (connections.delete_connection, connections.delete_connections_of_user):
        with pytest.raises(Refused, match="not authorised to access object"):
            await busy.ask(
                handler, monitor, name="c1" if handler is connections.delete_connection else "u"
            )
    assert len(busy.connections.open) == 2
    assert await busy.ask(connections.delete_connection, busy.caller("u"), name="c1") == 204


async def test_a_channel_is_shown_with_its_consumers(busy: ManagedNode) -> None:
    row = await busy.ask(connections.get_channel, channel="c1 (1)")
    assert (row["confirm"], row["prefetch_count"], row["state"]) == (True, 10, "running")
    assert (row["messages_unacknowledged"], row["messages_unconfirmed"]) == (2, 4)
    (consumer,) = row["consumer_details"]
    assert consumer["queue"] == {"name": "q", "vhost": "/"}
    assert [
        row["number"] for row in await busy.ask(connections.list_channels_of_connection, name="c2")
    ] == [1]
    for caller, name in ((busy.admin, "c1 (2)"), (busy.admin, "c"), (busy.caller("x"), "c1 (1)")):
        with pytest.raises(Refused, match=r"^no "):
            await busy.ask(connections.get_channel, caller, channel=name)


async def test_consumers_are_those_of_vhosts_that_the_caller_sees(busy: ManagedNode) -> None:
    for handler in (consumers.list_consumers, consumers.list_consumers_of_vhost):
        (row,) = await busy.ask(handler)
        assert (row["consumer_tag"], row["active"], row["arguments"]) == (
            "tag",
            True,
            {"x-priority": 3},
        )
        assert row["channel_details"]["connection_name"] == "c1"
    assert await busy.ask(consumers.list_consumers, busy.caller("stranger")) == []


async def test_consumers_of_a_queue_are_looked_for_when_it_has_some(busy: ManagedNode) -> None:
    class Consumed:
        name, vhost, consumer_count = "q", "/", 1

    rows = await consumers.consumer_rows_of_queue(busy.call(), Consumed())
    assert [row.consumer_tag for row in rows] == ["tag"]
    Consumed.name = "another"
    assert await consumers.consumer_rows_of_queue(busy.call(), Consumed()) == []
