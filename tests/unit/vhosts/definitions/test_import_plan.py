"""What an import would do, compared with what it does."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from support.queue_samples import Node, running_node

from routelog.log_backend import MetadataUnavailable
from routelog.vhosts import (
    AuthenticationBusy,
    DefinitionsImport,
    GlobalParameters,
    InvalidDefinition,
    UserDirectory,
    planned_import,
    read_definitions,
)
from routelog.vhosts.definitions import import_plan
from routelog.vhosts.definitions.import_plan import ImportPlan
from routelog.vhosts.stored.global_parameters import PARAMETERS_MAX

RABBITMQ = Path(__file__).parents[3] / "golden" / "rabbitmq-3.10-definitions.json"


async def no_hash(password: bytes) -> str:
    return ""


class World:
    """A node, what is planned for it, and what is done."""

    def __init__(self, node: Node) -> None:
        self.vhosts = node.vhosts
        self.users = UserDirectory(node.writer, no_hash)
        self.parameters = GlobalParameters(node.writer)

    async def plan(self, document: object, vhost: str | None = None) -> ImportPlan:
        definitions = read_definitions(document, vhost, keep_unknown=True)
        return await planned_import(definitions, self.vhosts, self.users, self.parameters)

    async def take(self, document: object) -> None:
        definitions = read_definitions(document, keep_unknown=True)
        await DefinitionsImport(self.vhosts, self.users, self.parameters).run(definitions)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with running_node(tmp_path) as node:
        yield World(node)


def document(**changes: dict[str, Any]) -> dict[str, Any]:
    """One entry of each kind in a vhost of its own, with changes by kind."""
    shovel = {"component": "shovel", "name": "s", "vhost": "v", "value": {"src": "x"}}
    entries: dict[str, list[dict[str, Any]]] = {
        "vhosts": [{"name": "v", "description": "first"}],
        "users": [{"name": "u", "password_hash": "", "tags": ["monitoring"]}],
        "permissions": [{"user": "u", "vhost": "v", "configure": "", "write": "", "read": ".*"}],
        "topic_permissions": [
            {"user": "u", "vhost": "v", "exchange": "x", "write": "a", "read": "b"}
        ],
        "policies": [{"vhost": "v", "name": "p", "pattern": "^q", "definition": {"max-length": 1}}],
        "global_parameters": [{"name": "g", "value": 1}],
        "parameters": [shovel],
        "exchanges": [
            {
                "name": "x",
                "vhost": "v",
                "type": "topic",
                "durable": True,
                "auto_delete": False,
                "internal": False,
                "arguments": {},
            }
        ],
        "queues": [
            {"name": "q", "vhost": "v", "durable": True, "auto_delete": False, "arguments": {}}
        ],
        "bindings": [
            {
                "source": "x",
                "vhost": "v",
                "destination": "q",
                "destination_type": "queue",
                "routing_key": "k",
                "arguments": {"a": 1},
            }
        ],
    }
    return {kind: [each | changes.get(kind, {}) for each in of] for kind, of in entries.items()}


async def test_all_is_added_then_unchanged(world: World) -> None:
    plan = await world.plan(document())
    assert {each.verdict for each in plan.entries} == {"added"}
    assert len(plan.entries) == len(plan.counts) == 10
    assert len(plan.without_effect) == 1
    assert {each.name for each in world.vhosts.all()} == {"/"}
    await world.take(document())
    plan = await world.plan(document())
    assert plan.entries == []
    assert all(of["unchanged"] == 1 for of in plan.counts.values())


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("vhosts", {"description": "second"}),
        ("users", {"tags": []}),
        ("users", {"limits": {"max-channels": 3}}),
        ("permissions", {"write": "w"}),
        ("topic_permissions", {"read": "c"}),
        ("policies", {"priority": 5}),
        ("global_parameters", {"value": 2}),
        ("parameters", {"value": {"src": "y"}}),
    ],
)
async def test_what_is_replaced_is_changed(
    world: World, kind: str, change: dict[str, object]
) -> None:
    await world.take(document())
    (entry,) = (await world.plan(document(**{kind: change}))).entries
    assert entry.verdict == "changed"
    assert entry.kind.startswith(kind)


@pytest.mark.parametrize(
    ("said", "limits"),
    [
        ({}, {"max-channels": 3}),
        ({"limits": {}}, {}),
        ({"limits": []}, {}),
        ({"limits": {"max-connections": 4}}, {"max-connections": 4}),
    ],
)
async def test_limits_of_a_user_are_replaced_if_the_document_has_some(
    world: World, said: dict[str, object], limits: dict[str, int]
) -> None:
    await world.take(document())
    await world.users.set_limits("u", {"max-channels": 3})
    wanted = document(users=said)
    plan = await world.plan(wanted)
    assert [each.verdict for each in plan.entries] == (["changed"] if said else [])
    await world.take(wanted)
    assert world.users.limits("u") == limits


@pytest.mark.parametrize(
    ("kind", "change", "reason"),
    [
        ("exchanges", {"type": "fanout"}, "'fanout'"),
        ("queues", {"arguments": {"x-max-length": 5}}, "x-max-length"),
        ("queues", {"durable": False}, "durable"),
    ],
)
async def test_exchanges_and_queues_that_are_there_are_left(
    world: World, kind: str, change: dict[str, object], reason: str
) -> None:
    await world.take(document())
    queue = world.vhosts.get("v").queues["q"]
    wanted = document(**{kind: change})
    (entry,) = (await world.plan(wanted)).entries
    assert (entry.verdict, entry.kind) == ("left", kind)
    assert reason in entry.reason
    await world.take(wanted)
    assert world.vhosts.get("v").queues["q"] is queue


async def test_another_binding_and_limits_are_added(world: World) -> None:
    await world.take(document())
    limits = {"component": "vhost-limits", "name": "limits", "vhost": "v"}
    other = document(bindings={"routing_key": "l"})
    other["parameters"] = [limits | {"value": {"max-queues": 9}}]
    verdicts = {each.kind: each.verdict for each in (await world.plan(other)).entries}
    assert verdicts == {"bindings": "added", "vhost_limits": "added"}
    await world.take(other)
    assert (await world.plan(other)).entries == []


async def test_what_cannot_be_is_named_and_nothing_is_done(world: World) -> None:
    with pytest.raises(InvalidDefinition, match="permissions of 'nobody' in 'v'"):
        await world.plan(document(permissions={"user": "nobody"}))
    assert {each.name for each in world.vhosts.all()} == {"/"}


async def test_what_rabbitmq_exports_is_unchanged_behind_its_import(world: World) -> None:
    exported = json.loads(RABBITMQ.read_text())
    assert (await world.plan(exported)).entries
    await world.take(exported)
    assert (await world.plan(exported)).entries == []


async def test_not_all_of_very_many_entries_are_named(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_plan, "ENTRIES_MAX", 2)
    plan = await world.plan(document())
    assert len(plan.entries) == 2
    assert len(plan.counts) == 10


async def test_more_global_parameters_than_there_may_be_change_nothing(world: World) -> None:
    await world.parameters.put("p0", 0)
    few = [{"name": f"p{each}", "value": each} for each in range(PARAMETERS_MAX)]
    many = {**document(), "global_parameters": [*few, {"name": "more", "value": 0}]}
    for refused in (world.plan, world.take):
        with pytest.raises(InvalidDefinition, match="'more': there are 1000 already"):
            await refused(many)
    assert list(world.parameters.all()) == ["p0"]
    assert world.users.users() == []
    await world.take({"global_parameters": few})
    assert len(world.parameters.all()) == PARAMETERS_MAX


async def test_what_an_import_had_changed_when_it_failed_is_told(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: list[tuple[str, dict[str, object]]] = []
    monkeypatch.setattr(
        world.vhosts.events, "note", lambda event, **said: noted.append((event, said))
    )
    busy = {"users": [{"name": "u", "password": "p", "tags": ""}], "vhosts": [{"name": "v"}]}

    async def is_busy(password: bytes) -> str:
        raise AuthenticationBusy("too many")

    monkeypatch.setattr(world.users, "hash_password", is_busy)
    with pytest.raises(AuthenticationBusy):
        await world.take(busy)
    assert ([vhost.name for vhost in world.vhosts.all()], noted) == (["/"], [])

    async def fails(name: str, value: object) -> None:
        raise MetadataUnavailable("the disk is gone")

    monkeypatch.setattr(world.parameters, "put", fails)
    with pytest.raises(MetadataUnavailable):
        await world.take(document())
    ((event, said),) = noted
    assert event == "definitions.failed"
    assert said.pop("cause") == "MetadataUnavailable: the disk is gone"
    assert said == {
        "vhosts": 1,
        "users": 1,
        "permissions": 1,
        "topic_permissions": 1,
        "policies": 1,
    }
