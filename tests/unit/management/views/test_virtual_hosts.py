"""Vhosts and definitions over HTTP."""

import pytest
from support.queue_samples import delete_queue, got, records
from unit.management.managed_node import ManagedNode

from routelog.exchanges import RoutingError
from routelog.management.calls.failures import Refused
from routelog.management.views import virtual_hosts as vhosts
from routelog.vhosts import FULL_PERMISSION, InvalidDefinition, User


async def test_a_vhost_is_made_changed_shown_and_deleted(node: ManagedNode) -> None:
    user = await node.user("u", "administrator")
    body = {"description": "d", "tags": "a,b", "default_queue_type": "quorum", "tracing": True}
    assert await node.ask(vhosts.put_vhost, user, name="v", body=body) == 201
    assert node.users.permissions.of_user("u")["v"] == FULL_PERMISSION  # who makes it is let in
    assert node.traced == [("v", True)]
    assert await node.ask(vhosts.put_vhost, user, name="v", body={"tags": []}) == 204
    rows = {row["name"]: row for row in await node.ask(vhosts.list_vhosts)}
    assert (rows["v"]["description"], rows["v"]["tags"]) == ("d", [])
    assert rows["v"]["default_queue_type"] == "quorum"
    assert rows["/"]["default_queue_type"] == "undefined"
    assert await node.ask(vhosts.delete_vhost, name="v") == 204
    assert "v" not in node.users.permissions.of_user("u")
    with pytest.raises(Refused, match=r"^no "):
        await node.ask(vhosts.delete_vhost, name="v")


async def test_a_vhost_counts_its_messages(node: ManagedNode) -> None:
    queue = await node.queue("q")
    queue.publish(records("a", "b"), True)
    assert got(queue) is not None
    row = await node.ask(vhosts.get_vhost)
    counts = (row["messages"], row["messages_ready"], row["messages_unacknowledged"])
    assert counts == (2, 1, 1)


async def test_vhosts_are_shown_to_those_who_may_know_them(node: ManagedNode) -> None:
    user = await node.user("u", "management")
    await node.ask(vhosts.put_vhost, name="other", body={})
    assert [row["name"] for row in await node.ask(vhosts.list_vhosts, user)] == ["/"]
    monitor = node.caller("m", "monitoring")
    assert {row["name"] for row in await node.ask(vhosts.list_vhosts, monitor)} == {"/", "other"}


@pytest.mark.parametrize("body", [{"tracing": "perhaps"}, {"tags": 1}, b"[1]"])
async def test_a_body_that_is_none_is_refused(node: ManagedNode, body: object) -> None:
    with pytest.raises(Refused) as raised:
        await node.ask(vhosts.put_vhost, name="v", body=body)
    assert raised.value.status == 400
    assert [vhost.name for vhost in node.broker.vhosts.all()] == ["/"]


async def test_a_bad_name_is_refused(node: ManagedNode) -> None:
    with pytest.raises(RoutingError):
        await node.ask(vhosts.put_vhost, name="", body={})


# Definitions


async def test_definitions_go_out_and_come_back(node: ManagedNode) -> None:
    await node.queue("q", x_max_length=3)
    await node.users.put_user(User("u", "", ()))
    document = await node.ask(vhosts.get_definitions)
    assert document["product_version"] == "0.1"
    assert [user["name"] for user in document["users"]] == ["u"]
    await node.users.delete_user("u")
    done = delete_queue(node.vhost, node.vhost.queues["q"])
    if done is not None:
        await done
    assert await node.ask(vhosts.post_definitions, body=document) == 204
    assert node.vhost.queues["q"].properties.arguments == {"x-max-length": 3}
    assert node.users.find("u") is not None


async def test_definitions_of_a_vhost_name_no_user(node: ManagedNode) -> None:
    await node.user("u")
    await node.queue("q")
    document = await node.ask(vhosts.get_definitions_of_vhost)
    assert "users" not in document
    assert [queue["name"] for queue in document["queues"]] == ["q"]
    document["queues"][0]["name"] = "again"
    assert await node.ask(vhosts.post_definitions_of_vhost, body=document) == 204
    assert set(node.vhost.queues) == {"q", "again"}


async def test_what_is_unknown_is_refused_or_kept_as_the_caller_says(node: ManagedNode) -> None:
    shovel = {"component": "shovel", "name": "s", "vhost": "/", "value": {"src": "x"}}
    document = {"parameters": [shovel]}
    with pytest.raises(InvalidDefinition):
        await node.ask(vhosts.post_definitions, body=document)
    kept = await node.ask(vhosts.post_definitions, body=document, query="unknown=keep")
    assert len(kept["kept_without_effect"]) == 1
    with pytest.raises(Refused, match="expected refuse or keep"):
        await node.ask(vhosts.post_definitions, body=document, query="unknown=drop")


async def test_a_name_of_a_file_is_that_of_the_download(node: ManagedNode) -> None:
    for handler in (vhosts.get_definitions, vhosts.get_definitions_of_vhost):
        answer = handler(node.call(query="download=mine.json"))
        assert getattr(answer, "file_name", "") == "mine.json"
