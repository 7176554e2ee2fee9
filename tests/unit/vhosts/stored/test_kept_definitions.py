"""What RabbitMQ and its plugins have and this broker has not is kept without effect, if that is asked for."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from support.queue_samples import Node, running_node

from routelog.vhosts import (
    DefinitionsImport,
    GlobalParameters,
    InvalidDefinition,
    ParameterNotFound,
    UserDirectory,
    exported_definitions,
    read_definitions,
)
from routelog.vhosts.stored.kept_definitions import ENTRIES_MAX, ENTRY_BYTES_MAX

RABBITMQ = Path(__file__).parents[3] / "golden" / "rabbitmq-4.1-definitions.json"
FEDERATION = "federation: orders -> rabbit@edge B"
SHOVEL = {"component": "shovel", "vhost": "/", "name": "s", "value": {"src-uri": "amqp://"}}
POLICY = {"vhost": "/", "name": "p", "pattern": "^q", "definition": {"max-length": 7, "new": 1}}


async def no_hash(password: bytes) -> str:
    return ""


class World:
    """A node, and what goes in and out."""

    def __init__(self, node: Node) -> None:
        self.vhosts = node.vhosts
        self.users = UserDirectory(node.writer, no_hash)
        self.parameters = GlobalParameters(node.writer)
        self.users.load(node.logs.metadata)
        self.parameters.load(node.logs.metadata)

    async def keep(
        self, document: object, vhost: str | None = None, *, keep_unknown: bool = True
    ) -> list[str]:
        """Import it; returns what has no effect."""
        definitions = read_definitions(document, vhost, keep_unknown=keep_unknown)
        await DefinitionsImport(self.vhosts, self.users, self.parameters).run(definitions)
        return definitions.without_effect

    async def exported(self) -> Any:
        pieces = exported_definitions(self.vhosts.all(), self.users, self.parameters, {"v": []})
        document = json.loads(b"".join([piece async for piece in pieces]))
        for entries in document.values():
            entries.sort(key=lambda entry: json.dumps(entry, sort_keys=True))
        return document


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with running_node(tmp_path) as node:
        yield World(node)


def document() -> Any:
    return json.loads(RABBITMQ.read_bytes())


def normalized(entries: list[Any]) -> list[str]:
    return sorted(json.dumps(each, sort_keys=True) for each in entries)


SECTIONS = ("policies", "exchanges", "bindings", "parameters", "global_parameters")


async def test_what_rabbitmq_4_exports_comes_in_and_out_again(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        world = World(node)
        said = await world.keep(document())
        exported = await world.exported()
    for section in SECTIONS:
        assert normalized(exported[section]) == normalized(document()[section]), section
    assert [each.split()[0].rstrip(":") for each in said] == [
        "parameters[0]",
        "parameters[1]",
        "parameters[2]",
        "parameters[4]",
        "policies[0]",
        "policies[1]",
        "exchanges[3]",
        "bindings[1]",
        "bindings[2]",
    ]
    assert "parameters[0] 'move-orders': component shovel: there is no such component" in said
    assert "policies[0] 'federated': policy 'federated': not known: federation-upstream-set" in said
    assert "tr0ub4dor" not in "".join(said)
    async with running_node(tmp_path) as node:
        world = World(node)
        assert await world.exported() == exported  # a restart knows it all
        assert await world.keep(document()) == said
        assert await world.exported() == exported  # and once more changes nothing


async def test_what_is_known_of_a_policy_has_its_effect(world: World) -> None:
    await world.keep(document())
    vhost = world.vhosts.get("/")
    orders = vhost.queues["orders"].effective
    assert orders.policy is not None
    assert orders.policy.name == "federated"  # it comes first, as in RabbitMQ
    assert orders.values["x-max-length"] == 5000
    assert "x-dead-letter-exchange" not in orders.values  # of operator policies, no such key
    assert not vhost.routing.has_exchange(FEDERATION)
    assert vhost.routing.exchange("local").type == "x-local-random"
    assert [each.destination for each in vhost.routing.bindings_from("orders")] == ["orders"]


@pytest.mark.parametrize("section", ["parameters", "policies", "exchanges"])
async def test_strict_is_the_default_and_names_the_option(world: World, section: str) -> None:
    before = await world.exported()
    given = document()
    only = {each: given[each] for each in given if each not in SECTIONS or each == section}
    with pytest.raises(
        InvalidDefinition, match=r"--keep-unknown, .unknown=keep or definitions_unknown"
    ):
        await world.keep(only, keep_unknown=False)
    assert await world.exported() == before


@pytest.mark.parametrize(
    "bad",
    [
        {"policies": [{**POLICY, "definition": {"max-length": -1, "new": 1}}]},
        {"policies": [{**POLICY, "definition": {}}]},
        {"policies": [{**POLICY, "apply-to": "everything"}]},
        {"parameters": [{**SHOVEL, "vhost": "nowhere"}]},
        {"parameters": [{"component": "shovel", "vhost": "/", "name": "s"}]},
        {"parameters": [{**SHOVEL, "value": "x" * ENTRY_BYTES_MAX}]},
        {"parameters": [{**SHOVEL, "name": str(at)} for at in range(ENTRIES_MAX + 1)]},
        {"queues": [{"name": "q", "vhost": "/", "arguments": {"x-max-length": -1}}]},
    ],
    ids=lambda bad: next(iter(bad)),
)
async def test_what_is_wrong_is_refused_all_the_same(world: World, bad: Any) -> None:
    await world.vhosts.add("/")
    before = await world.exported()
    with pytest.raises(InvalidDefinition):
        await world.keep(bad)
    assert await world.exported() == before


async def test_what_is_kept_is_replaced_and_deleted_by_its_name(world: World) -> None:
    await world.keep(document())
    vhost = world.vhosts.get("/")
    await world.keep({"parameters": [{**SHOVEL, "name": "move-orders", "value": 2}]})
    assert vhost.kept.parameter("shovel", "move-orders")["value"] == 2
    await vhost.kept.delete_parameter("shovel", "move-orders")
    with pytest.raises(ParameterNotFound):
        await vhost.kept.delete_parameter("shovel", "move-orders")
    await vhost.kept.delete_exchange(FEDERATION)
    exported = await world.exported()
    assert FEDERATION not in {each["name"] for each in exported["exchanges"]}
    assert {each["destination"] for each in exported["bindings"]} == {"orders"}
    components = {each["component"] for each in exported["parameters"]}
    assert components == {"federation-upstream", "federation-upstream-set", "vhost-limits"} | {
        "operator_policy"
    }


async def test_a_vhost_takes_what_it_keeps_with_it(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        world = World(node)
        await world.vhosts.add("v")
        await world.keep({"parameters": [{**SHOVEL, "vhost": "elsewhere"}]}, "v")
        assert world.vhosts.get("v").kept.all("parameters") == [{**SHOVEL, "vhost": "v"}]
        await world.vhosts.delete("v")
        await world.vhosts.add("v")
        assert world.vhosts.get("v").kept.all("parameters") == []
    async with running_node(tmp_path) as node:
        assert node.vhosts.get("v").kept.all("parameters") == []
