"""What definitions take of memory is counted by who made them, refused beyond the limit, and given back."""

import asyncio
import random
from collections.abc import Awaitable
from contextlib import suppress
from pathlib import Path

import pytest
from support.queue_samples import Node, delete_queue, running_node

from routelog.exchanges import Binding, Exchange, ExchangeNotFound, QueueNotFound
from routelog.vhosts import (
    Actor,
    BindingLimitReached,
    DefinitionsImport,
    DefinitionsLimitReached,
    Durable,
    GlobalParameters,
    InvalidArguments,
    InvalidDefinition,
    QueueProperties,
    UserBindingLimitReached,
    UserDirectory,
    VhostRecord,
    VirtualHost,
    acts,
    pending,
    read_definitions,
)
from routelog.vhosts.vhost.definitions_budget import definition_bytes

ANN, BOB = (Actor(name, "127.0.0.1", "AMQP 0-9-1") for name in ("ann", "bob"))
CONNECTION = object()
LARGE = {"a": "x" * 60_000}


def declare(
    vhost: VirtualHost, name: str, arguments: dict[str, object] | None = None
) -> Awaitable[object] | None:
    properties = QueueProperties(name, True, arguments=arguments or {})
    return pending(vhost.declare_queue(properties, CONNECTION))


def exchange(vhost: VirtualHost, name: str, arguments: dict[str, object] | None = None) -> Durable:
    flags = {"durable": True, "auto_delete": False, "internal": False}
    return vhost.declare_exchange(Exchange(name, "fanout", arguments=arguments or {}, **flags))


async def when_durable(change: Awaitable[object] | None) -> None:
    if change is not None:
        await change


def counted(vhost: VirtualHost) -> int:
    """What there is, counted anew."""
    bindings = [each for each in vhost.routing.bindings() if each.source]
    exchanges = [e for e in vhost.routing.exchanges() if e not in vhost.routing.predeclared]
    queues = [queue.properties for queue in vhost.queues.values()]
    return sum(map(definition_bytes, (*bindings, *exchanges, *queues)))


class Chance:
    """Declares, binds and deletes at random."""

    def __init__(self, vhost: VirtualHost) -> None:
        self._vhost = vhost
        self._chance = random.Random(7)

    def step(self) -> Awaitable[object] | None:
        """Change something, or nothing where a name is not there."""
        vhost, chance = self._vhost, self._chance
        one, other = (f"n{chance.randrange(6)}" for _ in range(2))
        wild: dict[str, object] = {"k": chance.randrange(3), "in": {"b": [1, 2, "x"]}}
        arguments = wild if chance.random() < 0.5 else {}
        what = chance.randrange(12)
        with acts(chance.choice((ANN, BOB))), suppress(QueueNotFound, ExchangeNotFound):
            if what < 2:
                return declare(vhost, one)
            if what < 4:
                return exchange(vhost, one)
            if what < 7:
                return vhost.bind(Binding(other, one, "queue", "k", arguments))
            if what < 9:
                return vhost.bind(Binding(other, one, "exchange", "k", arguments))
            if what < 10:
                return vhost.unbind(Binding(other, one, "queue", "k", arguments))
            if what < 11:
                return vhost.delete_exchange(one, if_unused=False)
            if one in vhost.queues:
                return delete_queue(vhost, vhost.queues[one])
        return None


async def test_whatever_comes_and_goes_is_counted_also_after_a_start(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        budget, vhost = node.vhosts.budget, node.vhost
        chance = Chance(vhost)
        for _ in range(800):
            await when_durable(chance.step())
            assert budget.bytes == counted(vhost)
            assert vhost.binding_count == sum(bool(b.source) for b in vhost.routing.bindings())
        for name in ("q", "r"):
            with acts(ANN):
                await when_durable(declare(vhost, name))
                await when_durable(
                    vhost.bind(Binding("amq.topic", name, "queue", "k", {"in": {"b": [1]}}))
                )
        before = budget.bytes, dict(budget._of_user), dict(budget._bindings_of_user)
        held = node.logs.memory.held_bytes
        assert held > 0
    async with running_node(tmp_path) as node:
        budget, vhost = node.vhosts.budget, node.vhost
        assert (budget.bytes, budget._of_user, budget._bindings_of_user) == before
        assert node.logs.memory.held_bytes == held
        await vhost.clear()
        assert (budget.bytes, budget._of_user, budget._bindings_of_user) == (0, {}, {})
        assert (node.logs.memory.held_bytes, vhost.binding_count) == (0, 0)


def fill(node: Node, actor: Actor) -> int:
    """Bind with large arguments until that is refused; how many there are then."""
    for number in range(1_000):
        try:
            with acts(actor):
                node.vhost.bind(
                    Binding("amq.headers", "q", "queue", str(number), {**LARGE, "n": number})
                )
        except DefinitionsLimitReached:
            return number
    raise AssertionError("nothing is refused")


async def test_a_user_has_a_part_of_it_and_the_others_the_rest(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        budget = node.vhosts.budget
        budget.bytes_max = 4_000_000
        await when_durable(declare(node.vhost, "q"))
        assert fill(node, ANN) == 24  # three of the four megabytes
        for make in (lambda: declare(node.vhost, "r"), lambda: exchange(node.vhost, "x", LARGE)):
            budget.bytes_max = budget._of_user["ann"] * 4 // 3
            with acts(ANN), pytest.raises(DefinitionsLimitReached, match="user 'ann' has def"):
                make()
        assert "r" not in node.vhost.queues
        assert not node.vhost.routing.has_exchange("x")
        budget.bytes_max = 4_000_000
        assert fill(node, BOB) == 32  # Ann's, which are there, and a megabyte of his own
        with acts(BOB), pytest.raises(DefinitionsLimitReached, match="the node has def"):
            node.vhost.bind(Binding("amq.headers", "q", "queue", "another", LARGE))
        assert budget.bytes <= 4_000_000
        there = node.vhost.binding_count
        await asyncio.wait_for(node.writer.submit([]), 30)
    async with running_node(tmp_path) as node:
        assert node.vhost.binding_count == there, "what was refused is not stored"
        assert node.vhosts.budget._bindings_of_user["ann"] == 24


@pytest.mark.parametrize("arguments", [{"a": "x" * 65_536}, {"a": [True] * 65_536}])
async def test_arguments_have_the_size_that_they_may_have_over_http(
    tmp_path: Path, arguments: dict[str, object]
) -> None:
    async with running_node(tmp_path) as node:
        await when_durable(declare(node.vhost, "q"))
        vhost = node.vhost
        for make in (
            lambda: declare(vhost, "r", arguments),
            lambda: exchange(vhost, "x", arguments),
            lambda: vhost.bind(Binding("amq.fanout", "q", "queue", "", arguments)),
            lambda: vhost.bind(Binding("amq.fanout", "amq.topic", "exchange", "", arguments)),
        ):
            with pytest.raises(InvalidArguments, match="larger than 65536 bytes"):
                make()
        assert vhost.binding_count == 0


async def test_bindings_are_limited_in_number_by_vhost_and_by_user(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        await node.vhosts.put(VhostRecord("/", limits={"max-bindings": 3}))
        node.vhosts.budget.limits_of = lambda user: {"max-bindings": 2} if user == "ann" else {}
        await when_durable(declare(node.vhost, "q"))

        def bind(actor: Actor, key: str) -> None:
            with acts(actor):
                node.vhost.bind(Binding("amq.direct", "q", "queue", key))

        for key in ("1", "2", "2"):
            bind(ANN, key)
        with pytest.raises(UserBindingLimitReached, match=r"user 'ann' \(2\) is reached"):
            bind(ANN, "3")
        bind(BOB, "3")
        with pytest.raises(BindingLimitReached, match=r"vhost '/' \(3\) is reached"):
            bind(BOB, "4")
        assert node.vhost.binding_count == 3
        assert node.vhost.routing.route("amq.direct", b"3") == ("q",)
        assert node.vhost.routing.route("amq.direct", b"4") == ()
        with acts(ANN):
            await when_durable(node.vhost.unbind(Binding("amq.direct", "q", "queue", "2")))
        bind(ANN, "5")


@pytest.mark.parametrize(
    ("limits", "bytes_max", "reason"),
    [({"max-bindings": 1}, 1 << 30, "binding limit"), ({}, 8_000, "the node has definitions")],
)
async def test_an_import_that_is_too_much_changes_nothing(
    tmp_path: Path, limits: dict[str, int], bytes_max: int, reason: str
) -> None:
    async with running_node(tmp_path) as node:
        await node.vhosts.put(VhostRecord("/", limits=limits))
        node.vhosts.budget.bytes_max = bytes_max
        binding = {"source": "x", "destination": "q", "destination_type": "queue", "vhost": "/"}
        wanted = {
            "exchanges": [{"name": "x", "type": "topic", "vhost": "/", "arguments": {}}],
            "queues": [{"name": "q", "vhost": "/", "arguments": {}}],
            "bindings": [{**binding, "routing_key": key, "arguments": {}} for key in "abc"],
        }

        async def no_hash(password: bytes) -> str:
            return ""

        users, parameters = UserDirectory(node.writer, no_hash), GlobalParameters(node.writer)
        with pytest.raises(InvalidDefinition, match=reason):
            await DefinitionsImport(node.vhosts, users, parameters).run(read_definitions(wanted))
        assert not node.vhost.routing.has_exchange("x")
        assert node.vhosts.budget.bytes == 0
