"""Definitions as people write them by hand, and as old brokers and tools export them. RabbitMQ takes each."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from support.queue_samples import Node, running_node

from routelog.vhosts import (
    DefinitionsImport,
    GlobalParameters,
    InvalidDefinition,
    UserDirectory,
    decoded_json,
    planned_import,
    read_definitions,
)
from routelog.vhosts.definitions.definitions import PROBLEMS_MAX
from routelog.vhosts.people.imported_password import rabbitmq_hash
from routelog.vhosts.people.password import hash_password, verify_password


async def hashed(password: bytes) -> str:
    return await asyncio.to_thread(hash_password, password)


class World:
    """A node, and what is imported into it as bytes."""

    def __init__(self, node: Node) -> None:
        self.vhosts = node.vhosts
        self.users = UserDirectory(node.writer, hashed)
        self.parameters = GlobalParameters(node.writer)

    async def take(self, document: bytes) -> list[str]:
        """Returns what was skipped."""
        definitions = read_definitions(decoded_json(document))
        await DefinitionsImport(self.vhosts, self.users, self.parameters).run(definitions)
        return definitions.skipped

    async def problems(self, document: dict[str, Any]) -> tuple[str, ...]:
        with pytest.raises(InvalidDefinition) as raised:
            await self.take(json.dumps(document).encode())
        return raised.value.problems

    def lets_in(self, user: str, password: bytes) -> bool:
        return verify_password(self.users.get(user).password_hash, password)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with running_node(tmp_path) as node:
        yield World(node)


HASH = rabbitmq_hash(b"secret", b"salt")
QUEUE = '{"name": "q", "vhost": "/", "durable": true, "auto_delete": false, "arguments": {}}'
WRITTEN = {
    "plain-password": '{"users": [{"name": "u", "password": "secret", "tags": "administrator"}]}',
    "no-password": '{"users": [{"name": "u", "tags": ""}]}',
    "empty-password": '{"users": [{"name": "u", "password": "", "tags": []}]}',
    "empty-hash": '{"users": [{"name": "u", "password_hash": "", "tags": "a, b"}]}',
    "default-algorithm": '{"users": [{"name": "u", "password_hash": "HASH", "tags": ""}]}',
    "algorithm-null": '{"users": [{"name": "u", "password_hash": "HASH", "hashing_algorithm": null,'
    ' "tags": "management"}]}',
    "algorithm-of-old": '{"users": [{"name": "u", "password_hash": "kI3GCkSUn9UBKBRE0i8r3HLXQh8=",'
    ' "hashing_algorithm": "rabbit_password_hashing_md5", "tags": "administrator"}]}',
    "algorithm-unknown": '{"users": [{"name": "u", "password_hash": "HASH", "tags": "",'
    ' "hashing_algorithm": "my_own_hashing"}]}',
    "hash-of-another-length": '{"users": [{"name": "u", "password_hash": "abcd", "tags": ""}]}',
    "sha512-said-to-be-sha256": '{"users": [{"name": "u", "password_hash": "LONG", "tags": "",'
    ' "limits": []}]}',
    "administrator-of-version-2": '{"users": [{"name": "u", "password_hash": "HASH",'
    ' "administrator": "true"}]}',
    "versions-only": '{"rabbit_version": "3.8.9", "rabbitmq_version": "3.8.9",'
    ' "product_name": "RabbitMQ", "product_version": "3.8.9"}',
    "an-old-version": '{"rabbit_version": "2.8.0", "vhosts": [{"name": "/"}]}',
    "unknown-keys": '{"comment": "ours", "queues": [QUEUE], "users": [{"name": "u", "tags": "", "x": 1}]}',
    "nothing": "{}",
    "empty-lists": '{"users": [], "vhosts": [], "permissions": [], "topic_permissions": [],'
    ' "parameters": [], "global_parameters": [], "policies": [], "queues": [], "exchanges": [],'
    ' "bindings": []}',
    "bindings-of-the-default-exchange": '{"queues": [QUEUE], "bindings": [{"source": "", "vhost": "/",'
    ' "destination": "q", "destination_type": "queue", "routing_key": "q", "arguments": {}}]}',
    "predeclared-exchanges": '{"exchanges": [{"name": "amq.topic", "vhost": "/", "type": "topic",'
    ' "durable": true, "auto_delete": false, "internal": false, "arguments": {}},'
    ' {"name": "", "vhost": "/", "type": "direct", "durable": true}]}',
    "a-policy-without-defaults": '{"policies": [{"vhost": "/", "name": "ha", "pattern": ".*",'
    ' "definition": {"ha-mode": "all", "ha-sync-mode": "automatic"}}]}',
    "an-exchange-without-defaults": '{"exchanges": [{"name": "x", "vhost": "/", "type": "topic",'
    ' "durable": true}]}',
    "arguments-as-lists": '{"queues": [{"name": "q", "vhost": "/", "durable": true,'
    ' "auto_delete": false, "arguments": []}]}',
    "a-queue-with-its-type": '{"queues": [{"name": "q", "vhost": "/", "durable": true,'
    ' "auto_delete": false, "type": "classic", "arguments": {"x-queue-type": "quorum"}}]}',
    "vhosts-of-version-4": '{"vhosts": [{"name": "v", "description": "", "tags": [], "limits": [],'
    ' "metadata": {"description": "", "tags": [], "default_queue_type": "undefined"}}]}',
    "a-byte-order-mark": '\ufeff{"vhosts": [{"name": "v"}]}\r\n',
}
REPLACED = {"HASH": HASH, "LONG": "A" * 92, "QUEUE": QUEUE}
for name, text in REPLACED.items():
    WRITTEN = {key: written.replace(name, text) for key, written in WRITTEN.items()}


@pytest.mark.parametrize("document", WRITTEN.values(), ids=WRITTEN)
async def test_what_rabbitmq_takes_is_taken(world: World, document: str) -> None:
    await world.vhosts.add("/")
    for _ in range(2):
        assert await world.take(document.encode()) == []


@pytest.mark.parametrize(
    ("written", "lets_in", "tags"),
    [
        ("plain-password", True, ("administrator",)),
        ("no-password", False, ()),
        ("empty-password", False, ()),
        ("empty-hash", False, ("a", "b")),
        ("default-algorithm", True, ()),
        ("algorithm-null", True, ("management",)),
        ("algorithm-of-old", False, ("administrator",)),
        ("algorithm-unknown", False, ()),
        ("hash-of-another-length", False, ()),
        ("sha512-said-to-be-sha256", False, ()),
        ("administrator-of-version-2", True, ("administrator",)),
    ],
)
async def test_a_user_logs_in_or_the_log_says_why_not(
    world: World,
    written: str,
    lets_in: bool,
    tags: tuple[str, ...],
    caplog: pytest.LogCaptureFixture,
) -> None:
    await world.take(WRITTEN[written].encode())
    user = world.users.get("u")
    assert user.tags == tags
    assert world.lets_in("u", b"secret") == lets_in
    assert not world.lets_in("u", b"")
    warned = [each.message for each in caplog.records if each.levelno == logging.WARNING]
    is_odd = user.password_hash != "" and not lets_in
    assert bool(warned) == is_odd
    plan = await planned_import(
        read_definitions(decoded_json(WRITTEN[written].encode().replace(b'"u"', b'"w"'))),
        world.vhosts,
        world.users,
        world.parameters,
    )
    assert bool(plan.entries[0].reason) == is_odd


async def test_a_password_keeps_its_hash_when_it_is_imported_again(world: World) -> None:
    await world.take(WRITTEN["plain-password"].encode())
    first = world.users.get("u").password_hash
    await world.take(WRITTEN["plain-password"].encode())
    assert world.users.get("u").password_hash == first
    await world.take(WRITTEN["plain-password"].replace("secret", "other").encode())
    assert world.lets_in("u", b"other")
    await world.take(WRITTEN["no-password"].encode())
    assert not world.lets_in("u", b"other")


async def test_names_of_the_brokers_own_are_skipped_with_their_bindings(world: World) -> None:
    await world.vhosts.add("/")
    binding = {"vhost": "/", "destination_type": "queue", "routing_key": "k", "arguments": {}}
    document = {
        "exchanges": [
            {"name": "amq.mine", "vhost": "/", "type": "topic"},
            {"name": "amq.topic", "vhost": "/", "type": "fanout"},
        ],
        "queues": [{"name": "amq.gen-x", "vhost": "/"}, {"name": "q", "vhost": "/"}],
        "bindings": [
            {**binding, "source": "amq.topic", "destination": "amq.gen-x"},
            {**binding, "source": "amq.mine", "destination": "q"},
            {**binding, "source": "amq.topic", "destination": "q"},
        ],
    }
    skipped = await world.take(json.dumps(document).encode())
    assert [each.partition(": ")[0] for each in skipped] == [
        "exchanges[0] 'amq.mine'",
        "queues[0] 'amq.gen-x'",
        "bindings from 'amq.topic' to 'amq.gen-x'",
        "bindings from 'amq.mine' to 'q'",
    ]
    vhost = world.vhosts.get("/")
    assert set(vhost.queues) == {"q"}
    assert not vhost.routing.has_exchange("amq.mine")
    assert vhost.routing.exchange("amq.topic").type == "topic"
    assert len(list(vhost.routing.bindings_from("amq.topic"))) == 1


async def test_all_that_is_wrong_is_said_at_once(world: World) -> None:
    await world.vhosts.add("/")
    queue = {"name": "q", "vhost": "/", "arguments": {"x-max-length": -1}}
    binding = {"vhost": "/", "destination_type": "queue", "destination": "q", "source": "amq.topic"}
    permission = {"configure": "", "write": "", "read": ""}
    document = {
        "users": [{"name": "both", "tags": "", "password": "a", "password_hash": ""}, 5],
        "vhosts": {},
        "permissions": [
            {
                "user": "both",
                "vhost": "/",
                **permission,
            },  # that he is missing follows from the above
            {"user": "nobody", "vhost": "/", **permission},
            {"user": "both", "vhost": "nowhere", **permission},
        ],
        "exchanges": [{"name": "x", "vhost": "/", "type": "topic", "arguments": {"a": 2**70}}],
        "queues": [queue, {"name": "r", "vhost": "nowhere"}],
        "bindings": [binding, {**binding, "source": "x"}, {**binding, "source": "y"}],
    }
    assert [each.partition(": ")[0] for each in await world.problems(document)] == [
        "users[0] 'both'",
        "users[1]",
        "vhosts",
        "exchanges[0] 'x'",
        "queues[0] 'q'",
        "permissions of 'nobody' in '/'",
        "permissions of 'both' in 'nowhere'",
        "queues 'r'",
        "bindings from 'y' to 'q'",
    ]
    assert world.users.users() == []
    assert not world.vhosts.get("/").queues


async def test_of_very_many_problems_some_are_said(world: World) -> None:
    problems = await world.problems({"users": [{"name": "u"}] * (PROBLEMS_MAX + 7)})
    assert len(problems) == PROBLEMS_MAX + 1
    assert problems[-1] == "and 7 more"
