"""Definitions: RabbitMQ's own export, what is said of bad ones, and that those change nothing."""

import json
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.queue_samples import Node, running_node
from support.sampling import examples

from routelog.vhosts import (
    DefinitionsImport,
    GlobalParameters,
    InvalidDefinition,
    UserDirectory,
    exported_definitions,
    read_definitions,
)
from routelog.vhosts.people.password import DUMMY_HASH, verify_password

COSTLY_HASH = DUMMY_HASH.replace("m=19456", "m=4194304")  # 4 GiB for each login
RABBITMQ = Path(__file__).parents[3] / "golden" / "rabbitmq-3.10-definitions.json"


async def no_hash(password: bytes) -> str:
    return ""


class World:
    """A node with users and parameters, and what it exports."""

    def __init__(self, node: Node) -> None:
        self.vhosts = node.vhosts
        self.users = UserDirectory(node.writer, no_hash)
        self.parameters = GlobalParameters(node.writer)
        self.users.load(node.logs.metadata)
        self.parameters.load(node.logs.metadata)

    async def take(self, document: object, vhost: str | None = None) -> None:
        definitions = read_definitions(document, vhost)
        await DefinitionsImport(self.vhosts, self.users, self.parameters).run(definitions)

    async def exported(self) -> Any:
        pieces = exported_definitions(self.vhosts.all(), self.users, self.parameters, {"v": 1})
        return json.loads(b"".join([piece async for piece in pieces]))


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with running_node(tmp_path) as node:
        yield World(node)


def sorted_entries(document: dict[str, Any]) -> dict[str, list[str]]:
    return {
        kind: sorted(json.dumps(entry, sort_keys=True) for entry in entries)
        for kind, entries in document.items()
        if isinstance(entries, list) and kind != "vhosts"
    }


async def test_what_rabbitmq_exports_is_imported_and_exported_again(tmp_path: Path) -> None:
    document = json.loads(RABBITMQ.read_text())
    async with running_node(tmp_path) as node:
        await World(node).take(document)
    async with running_node(tmp_path) as node:
        world = World(node)
        assert sorted_entries(await world.exported()) == sorted_entries(document)
        assert {vhost.name for vhost in world.vhosts.all()} == {"/", "orders"}
        orders = world.vhosts.get("orders")
        assert orders.limits == {"max-queues": 50}
        assert orders.queues["tmp.1"].effective.values["x-message-ttl"] == 60_000
        assert orders.queues["q"].effective.values["x-max-length"] == 100_000
        assert orders.routing.route("in", b"order.1.created") == ("q",)
        assert verify_password(world.users.get("sam").password_hash, b"test12")
        assert world.users.get("sam").tags == ("monitoring", "policymaker")


async def test_importing_again_changes_nothing(world: World) -> None:
    document = json.loads(RABBITMQ.read_text())
    await world.take(document)
    first = await world.exported()
    queue = world.vhosts.get("orders").queues["q"]
    await world.take(document)
    await world.take(first)
    assert await world.exported() == first
    assert world.vhosts.get("orders").queues["q"] is queue


@pytest.mark.parametrize(
    "queue",
    [{"arguments": {"x-queue-type": "stream"}}, {"durable": True}],
    ids=["named", "default"],
)
async def test_a_queue_of_a_disabled_type_is_refused_unless_it_exists(
    world: World, queue: dict[str, Any]
) -> None:
    document = {
        "vhosts": [{"name": "v", "default_queue_type": "stream"}],
        "queues": [{"name": "q", "vhost": "v", "durable": True, **queue}],
    }
    disabled = ["stream"]
    world.vhosts.disabled_types = disabled
    with pytest.raises(InvalidDefinition, match=r"queues 'q': .* type 'stream' are disabled"):
        await world.take(document)
    assert [vhost.name for vhost in world.vhosts.all()] == ["/"]
    disabled.clear()
    await world.take(document)
    disabled.append("stream")
    await world.take(document)
    assert [*world.vhosts.get("v").queues] == ["q"]


async def test_definitions_of_one_vhost_go_into_another(world: World) -> None:
    document = json.loads(RABBITMQ.read_text())
    await world.vhosts.add("copy")
    only = {
        kind: [{**entry, "vhost": "gone"} for entry in document[kind] if entry["vhost"] == "orders"]
        for kind in ("policies", "exchanges", "queues", "bindings")
    }
    await world.take({**only, "users": [{"name": "not looked at"}]}, "copy")
    assert set(world.vhosts.get("copy").queues) == {"q", "audit", "tmp.1"}
    assert world.users.users() == []


QUEUE = {"name": "q", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}
USER = {"name": "u", "password_hash": "", "tags": []}
BINDING = {
    "source": "amq.topic",
    "vhost": "/",
    "destination": "q",
    "destination_type": "queue",
    "routing_key": "",
    "arguments": {},
}
POLICY = {"vhost": "/", "name": "p", "pattern": "", "definition": {"max-length": 1}}
BAD: list[tuple[str, Any]] = [
    ("the document", []),
    ("users", {"users": {}}),
    (r"users\[0\] 'bad'", {"users": [{"name": "bad"}]}),
    (r"users\[1\]", {"users": [USER, 5]}),
    (r"users\[0\] 'u'", {"users": [{**USER, "password_hash": "x"}]}),
    *(
        (
            r"users\[0\] 'u'",
            {"users": [{**USER, "password_hash": hashed, "hashing_algorithm": "argon2id"}]},
        )
        for hashed in ("x", "$argon2id$x", COSTLY_HASH, DUMMY_HASH.replace("$argon2id$", "$argon2i$"))
    ),
    (r"users\[0\] 'u'", {"users": [{**USER, "limits": {"max-queues": 1}}]}),
    (r"vhosts\[0\]", {"vhosts": [{"name": ""}]}),
    ("vhosts 'v'", {"vhosts": [{"name": "v", "default_queue_type": "fast"}]}),
    (r"vhosts\[0\] 'v'", {"vhosts": [{"name": "v", "metadata": {"tags": 5}}]}),
    ("permissions of 'nobody' in '/'", {"permissions": [
        {"user": "nobody", "vhost": "/", "configure": "", "write": "", "read": ""}]}),
    ("permissions of 'u' in 'nowhere'", {"users": [USER], "permissions": [
        {"user": "u", "vhost": "nowhere", "configure": "", "write": "", "read": ""}]}),
    (r"permissions\[0\] 'u'", {"users": [USER], "permissions": [
        {"user": "u", "vhost": "/", "configure": "(", "write": "", "read": ""}]}),
    (r"topic_permissions\[0\] 'u'", {"users": [USER], "topic_permissions": [
        {"user": "u", "vhost": "/", "exchange": "x", "write": "(", "read": ""}]}),
    (r"policies\[0\] 'p'", {"policies": [{**POLICY, "definition": {"max-lenght": 1}}]}),
    (r"policies\[0\] 'p'", {"policies": [{**POLICY, "definition": {"ha-mode": "exactly"}}]}),
    (r"policies\[0\] 'p'", {"policies": [
        {**POLICY, "definition": {"dead-letter-routing-key": "k" * 256}}]}),
    ("policies 'p'", {"policies": [{**POLICY, "vhost": "nowhere"}]}),
    (r"parameters\[0\] 's'", {"parameters": [
        {"component": "shovel", "name": "s", "vhost": "/", "value": {}}]}),
    (r"parameters\[0\] 'o'", {"parameters": [
        {"component": "operator_policy", "name": "o", "vhost": "/", "value": {"pattern": 5}}]}),
    (r"parameters\[0\] 'o'", {"parameters": [
        {"component": "operator_policy", "name": "o", "vhost": "/", "value": 5}]}),
    (r"parameters\[0\] 'limits'", {"parameters": [
        {"component": "vhost-limits", "name": "limits", "vhost": "/", "value": [1]}]}),
    (r"global_parameters\[0\] 'g'", {"global_parameters": [{"name": "g", "value": "x" * 70_000}]}),
    ("exchanges 'x'", {"exchanges": [{"name": "x", "vhost": "/", "type": "x-delayed-message"}]}),
    ("exchanges 'x'", {"exchanges": [
        {"name": "x", "vhost": "/", "type": "topic"}, {"name": "x", "vhost": "/", "type": "fanout"}]}),
    ("exchanges 'x'", {"exchanges": [{"name": "x", "vhost": "/", "type": "topic",
                                      "arguments": {"alternate-exchange": 5}}]}),
    (r"exchanges\[0\] 'x'", {"exchanges": [{"name": "x", "type": "topic"}]}),
    (r"queues\[0\] 'q'", {"queues": [{**QUEUE, "arguments": {"x-max-length": -1}}]}),
    (r"queues\[0\] 'q'", {"queues": [{**QUEUE, "arguments": {"x": 2**70}}]}),
    (r"queues\[0\] 'q'", {"queues": [{**QUEUE, "arguments": {"x" * 256: 1}}]}),
    (r"queues\[0\]", {"queues": [{**QUEUE, "name": ""}]}),
    ("queues 'q'", {"queues": [{**QUEUE, "vhost": "nowhere"}]}),
    ("bindings from 'amq.topic' to 'q'", {"bindings": [BINDING]}),
    ("bindings from 'x' to 'q'", {"queues": [QUEUE], "bindings": [{**BINDING, "source": "x"}]}),
    ("bindings from 'amq.headers' to 'q'", {"queues": [QUEUE], "bindings": [
        {**BINDING, "source": "amq.headers", "arguments": {"x-match": "some"}}]}),
    (r"bindings\[0\]", {"bindings": [{**BINDING, "destination_type": "topic"}]}),
    ("queues 'q'", {"vhosts": [{"name": "v"}], "queues": [{**QUEUE, "vhost": "v"}], "parameters": [
        {"component": "vhost-limits", "name": "limits", "vhost": "v", "value": {"max-queues": 0}}]}),
]  # fmt: skip


@pytest.mark.parametrize(("place", "document"), BAD)
async def test_a_bad_entry_is_named_and_nothing_is_changed(
    world: World, place: str, document: Any
) -> None:
    before = await world.exported()
    if isinstance(document, dict):
        document.setdefault("exchanges", []).insert(
            0, {"name": "good", "vhost": "/", "type": "topic"}
        )
        place = place.replace("exchanges\\[0\\]", "exchanges\\[1\\]")
    with pytest.raises(InvalidDefinition, match=f"^{place}: "):
        await world.take(document)
    assert await world.exported() == before


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=10,
)
KINDS = (
    *("users", "vhosts", "permissions", "topic_permissions", "parameters", "global_parameters"),
    *("policies", "exchanges", "queues", "bindings"),
)


@settings(max_examples=examples(300))
@given(st.dictionaries(st.sampled_from(KINDS), json_values | st.lists(json_values, max_size=3)))
def test_any_json_is_read_or_refused_as_definitions(document: Any) -> None:
    with suppress(InvalidDefinition):
        read_definitions(document)


@settings(max_examples=examples(300))
@given(st.sampled_from(KINDS), st.data())
def test_an_entry_with_one_value_exchanged_is_read_or_refused(kind: str, data: Any) -> None:
    entry = dict(data.draw(st.sampled_from(json.loads(RABBITMQ.read_text())[kind])))
    entry[data.draw(st.sampled_from(sorted(entry)))] = data.draw(json_values)
    with suppress(InvalidDefinition):
        read_definitions({kind: [entry]})


async def test_an_object_that_rabbitmq_writes_as_an_empty_array_is_empty(world: World) -> None:
    await world.take(
        {
            "users": [{"name": "ann", "password_hash": "", "tags": [], "limits": []}],
            "vhosts": [{"name": "v", "metadata": []}],
            "parameters": [
                {"component": "vhost-limits", "name": "limits", "vhost": "v", "value": []}
            ],
            "exchanges": [{"name": "x", "type": "direct", "vhost": "v", "arguments": []}],
            "queues": [{"name": "q", "vhost": "v", "arguments": []}],
            "bindings": [
                {
                    "source": "x",
                    "destination": "q",
                    "destination_type": "queue",
                    "routing_key": "k",
                    "vhost": "v",
                    "arguments": [],
                }
            ],
        }
    )
    exported = await world.exported()
    assert [each["name"] for each in exported["queues"]] == ["q"]
    assert exported["bindings"][0]["arguments"] == {}
    assert exported["parameters"] == []
    with pytest.raises(InvalidDefinition, match=r"parameters\[0\].*no object"):
        await world.take(
            {"parameters": [{"component": "vhost-limits", "name": "l", "vhost": "v", "value": [1]}]}
        )
