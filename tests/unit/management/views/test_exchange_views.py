"""Exchanges and bindings over HTTP."""

import json
from urllib.parse import unquote_plus

import pytest
from unit.management.managed_node import ManagedNode

from routelog.exchanges import ReservedName
from routelog.management.calls.failures import Refused
from routelog.management.views import bindings
from routelog.management.views import exchange_views as exchanges
from routelog.vhosts import AccessRefused, Permission

MESSAGE = {"properties": {}, "routing_key": "k", "payload": "text", "payload_encoding": "string"}
TO_QUEUE = {"source": "mine", "kind": "q", "destination": "mine.q"}


async def test_an_exchange_is_made_shown_and_deleted(node: ManagedNode) -> None:
    body = {"type": "topic", "auto_delete": True, "arguments": {"alternate-exchange": "amq.fanout"}}
    assert await node.ask(exchanges.put_exchange, name="x", body=body) == 201
    assert await node.ask(exchanges.put_exchange, name="x", body=body) == 204
    row = await node.ask(exchanges.get_exchange, name="x")
    assert (row["type"], row["durable"], row["auto_delete"]) == ("topic", True, True)
    assert row["arguments"] == body["arguments"]
    assert (row.pop("incoming"), row.pop("outgoing")) == ([], [])
    assert row in await node.ask(exchanges.list_exchanges)
    assert row in await node.ask(exchanges.list_exchanges_of_vhost)
    assert await node.ask(exchanges.list_exchanges, node.caller("stranger")) == []
    assert await node.ask(exchanges.delete_exchange, name="x") == 204
    for handler in (exchanges.get_exchange, exchanges.delete_exchange):
        with pytest.raises(Refused, match=r"^no "):
            await node.ask(handler, name="x")


async def test_a_delayed_exchange_says_how_much_it_holds(node: ManagedNode) -> None:
    body = {"type": "x-delayed-message", "arguments": {"x-delayed-type": "direct"}}
    await node.ask(exchanges.put_exchange, name="later", body=body)
    assert (await node.ask(exchanges.get_exchange, name="later"))["messages_delayed"] == 0
    assert "messages_delayed" not in await node.ask(exchanges.get_exchange, name="amq.direct")


async def test_what_is_not_permitted_or_reserved_is_refused(node: ManagedNode) -> None:
    user = await node.user("u")
    assert await node.ask(exchanges.put_exchange, user, name="mine", body={"type": "direct"}) == 201
    alternate = {"type": "direct", "arguments": {"alternate-exchange": "other"}}
    for name, body in (("other", {"type": "direct"}), ("mine.too", alternate)):
        with pytest.raises(AccessRefused):
            await node.ask(exchanges.put_exchange, user, name=name, body=body)
    with pytest.raises(AccessRefused):
        await node.ask(exchanges.delete_exchange, user, name="amq.direct")
    with pytest.raises(ReservedName):
        await node.ask(exchanges.put_exchange, name="amq.own", body={"type": "direct"})
    with pytest.raises(Refused, match="type"):
        await node.ask(exchanges.put_exchange, name="x", body={"type": 5})
    assert await node.ask(exchanges.put_exchange, name="x", body={}) == 201
    assert node.vhost.routing.exchange("x").type == "direct"


async def test_a_message_is_published_with_its_payload_decoded(node: ManagedNode) -> None:
    user = await node.user("u")
    binary = {**MESSAGE, "payload": "AP8=", "payload_encoding": "base64"}
    for name, body in (("amq.default", MESSAGE), ("amq.topic", binary)):
        assert await node.ask(exchanges.publish, user, name=name, body=body) == {"routed": True}
    assert node.messages.published == [
        ("/", "u", "", "k", {}, b"text"),
        ("/", "u", "amq.topic", "k", {}, b"\x00\xff"),
    ]


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        ("nothing", {}, "404 NOT_FOUND - no exchange 'nothing'"),
        ("amq.topic", {"payload_encoding": "base64", "payload": "?"}, "no base64"),
        ("amq.topic", {"payload_encoding": "utf-16"}, "payload_encoding|enum"),
        ("amq.topic", {"routing_key": 1}, "str"),
    ],
)
async def test_what_is_no_message_is_not_published(
    node: ManagedNode, name: str, change: dict[str, object], reason: str
) -> None:
    with pytest.raises(Refused, match=reason):
        await node.ask(exchanges.publish, name=name, body={**MESSAGE, **change})
    assert node.messages.published == []


# Bindings


async def bound(node: ManagedNode, **body: object) -> str:
    """Bind queue "mine.q" to exchange "mine"; the key of the binding."""
    await node.queue("mine.q")
    await node.ask(exchanges.put_exchange, name="mine", body={"type": "topic"})
    answer = await bindings.post_binding(node.call(body=body, **TO_QUEUE))
    location = unquote_plus(getattr(answer, "location", ""))
    assert location.startswith("mine.q/")
    return location.removeprefix("mine.q/")


async def test_a_binding_is_made_shown_and_removed(node: ManagedNode) -> None:
    key = await bound(node, routing_key="a.#", arguments={"n": 1})
    row = await node.ask(bindings.get_binding, **TO_QUEUE, properties=key)
    assert (row["source"], row["destination"], row["routing_key"]) == ("mine", "mine.q", "a.#")
    assert row["arguments"] == {"n": 1}
    for handler in (bindings.list_bindings, bindings.list_bindings_of_vhost):
        assert row in await node.ask(handler)
    assert await node.ask(bindings.list_bindings_between, **TO_QUEUE) == [row]
    assert await node.ask(exchanges.list_bindings_from, name="mine") == [row]
    assert await node.ask(bindings.delete_binding, **TO_QUEUE, properties=key) == 204
    assert await node.ask(bindings.list_bindings_between, **TO_QUEUE) == []
    with pytest.raises(Refused, match=r"^no "):
        await node.ask(bindings.get_binding, **TO_QUEUE, properties=key)


async def test_an_exchange_may_be_bound_to_another(node: ManagedNode) -> None:
    ends = {"source": "amq.topic", "kind": "e", "destination": "amq.fanout"}
    await node.ask(bindings.post_binding, **ends, body={"routing_key": "k"})
    (row,) = await node.ask(exchanges.list_bindings_to, name="amq.fanout")
    assert (row["source"], row["destination_type"]) == ("amq.topic", "exchange")
    assert await node.ask(bindings.delete_binding, **ends, properties="k") == 204
    assert await node.ask(exchanges.list_bindings_to, name="amq.fanout") == []


@pytest.mark.parametrize(
    ("end", "name"), [("source", "nothing"), ("destination", "nothing"), ("kind", "e")]
)
async def test_ends_that_are_not_there_are_not_found(
    node: ManagedNode, end: str, name: str
) -> None:
    await bound(node)
    with pytest.raises(Refused, match=r"^no "):
        await node.ask(bindings.list_bindings_between, **{**TO_QUEUE, end: name})


async def test_bindings_need_permissions_for_both_ends_and_the_key(node: ManagedNode) -> None:
    await bound(node, routing_key="k")
    user = await node.user("u")
    assert await node.ask(bindings.delete_binding, user, **TO_QUEUE, properties="k") == 204
    with pytest.raises(AccessRefused):  # reading from it
        await node.ask(bindings.post_binding, user, **{**TO_QUEUE, "source": "amq.topic"}, body={})
    await node.users.set_permissions("u", "/", Permission("", "^other", ".*"))
    with pytest.raises(AccessRefused):  # writing to it
        await node.ask(bindings.post_binding, user, **TO_QUEUE, body={})


async def test_a_batch_is_published_when_all_of_it_is_added(
    node: ManagedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    coded = {"payload": "dGV4dA==", "payload_encoding": "base64"}
    body = [MESSAGE, MESSAGE | coded, MESSAGE | {"routing_key": "other"}]
    answer = await node.ask(exchanges.publish_batch, name="amq.direct", body=body)
    assert answer == {"confirmed": 1, "unroutable": [0], "refused": [1]}
    (batch,) = node.messages.batches
    assert batch.added == [("k", {}, b"text"), ("k", {}, b"text"), ("other", {}, b"text")]
    assert batch.received == len(json.dumps(body))

    lines = "\n".join(map(json.dumps, body)).encode()
    how = {"body": lines, "headers": {"Content-Type": "application/x-ndjson"}}
    assert await node.ask(exchanges.publish_batch, name="amq.direct", **how) == answer
    with pytest.raises(Refused, match=r"^not_json: "):
        await node.ask(exchanges.publish_batch, name="amq.direct", body=lines)

    wrong = [MESSAGE, MESSAGE | {"routing_key": "wrong"}, 1]
    for sent, status, reason in (
        (wrong, 401, "element 1: refused"),
        (wrong[::2], 400, "element 1: not_json"),
        ({}, 400, "not_json: expected an array"),
    ):
        with pytest.raises(Refused, match=reason) as refused:
            await node.ask(exchanges.publish_batch, name="amq.direct", body=sent)
        assert refused.value.status == status
    with pytest.raises(Refused, match="no exchange 'absent'"):
        await node.ask(exchanges.publish_batch, name="absent", body=[])
    for limit, value in (("BATCH_MESSAGES_MAX", 2), ("BATCH_BYTES_MAX", len(lines) - 1)):
        with monkeypatch.context() as patched:
            patched.setattr(exchanges, limit, value)
            with pytest.raises(Refused) as refused:
                await node.ask(exchanges.publish_batch, name="amq.direct", **how)
            assert refused.value.status == 413
    assert [each.is_published for each in node.messages.batches] == [True, True, *[False] * 6]
