"""Clients of all nodes see what clients of the leader see: a sample of `python -m cluster.fronts`."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from cluster.brokers.mirrored_brokers import MirroredBrokers
from cluster.fronts.broker_kinds import served_nodes
from cluster.fronts.drawn_steps import CLIENTS, LETTERS, QUEUES, Drawing, Step
from cluster.fronts.same_history import nodes_of, told
from cluster.fronts.world import World

# What is late counts, so it is for a machine that does nothing else; `test_fronts.py` has some of it each time.
pytestmark = pytest.mark.long

SEEDS = int(os.environ.get("ROUTELOG_TEST_SEEDS", "10"))
FIRST = int(os.environ.get("ROUTELOG_TEST_SEED", "0")) * SEEDS
PIECE = 10
SIDE_BY_SIDE = 3
LETTERED = 10  # one after the other, each in a commit of its own
TIMES = 5  # of what differed in half of the runs
BEHIND = "publish behind a settlement"
# What a sample must have been through, or it has shown nothing.
STEPS = ("publish", BEHIND, "settle", "consume", "get", "recover", "cancel", "close", "leave")

_done: Counter[str] = Counter()


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MirroredBrokers]:
    """Three nodes; no session is lost on the way."""
    with served_nodes(tmp_path_factory.mktemp("nodes")) as brokers:
        yield brokers


@pytest.mark.parametrize("first", range(FIRST, FIRST + SEEDS, PIECE))
async def test_clients_of_all_nodes_see_what_those_of_the_leader_see(
    brokers: MirroredBrokers, first: int
) -> None:
    nodes = nodes_of(brokers)
    seeds = iter(range(first, min(first + PIECE, FIRST + SEEDS)))

    async def run_some() -> None:
        for seed in seeds:
            steps = Drawing(seed).steps()
            difference, history = await nodes.run(steps)
            _done.update(history.done)
            assert difference is None, f"seed {seed}\n{told(steps, difference)}"

    await asyncio.gather(*(run_some() for _ in range(SIDE_BY_SIDE)))


def test_the_steps_were_there() -> None:
    if not _done:
        pytest.skip("no seed was run")
    assert not [name for name in STEPS if _done[name] == 0]


class Forgetful(World):
    """Its clients settle nothing."""

    async def carry_out(self, step: Step) -> None:
        """See `World`."""
        await self.channel(step)
        if step.kind != "settle":
            await super().carry_out(step)


async def test_what_differs_is_found_and_shrunk(brokers: MirroredBrokers) -> None:
    run = {"exchange": "", "key": "q0", "first": 0, "count": 1, "headers": {}, "mandatory": False}
    run |= {"delivery_mode": 2, "priority": None, "expiration": None}
    how = {"which": 0, "how": "nack", "multiple": False, "requeue": True}
    steps = [
        Step(0, 1, "declare", {"queue": "q1", "arguments": {}}),
        Step(0, 1, "declare", {"queue": "q0", "arguments": {}}),
        Step(1, 1, "publish", {"runs": [run], "settled": None, "immediate": False}),
        Step(1, 2, "get", {"queue": "q0", "no_ack": False}),
        Step(2, 1, "get", {"queue": "q1", "no_ack": False}),
        Step(1, 2, "settle", how),
        Step(2, 1, "get", {"queue": "q0", "no_ack": False}),
        Step(2, 1, "close"),
    ]
    nodes = nodes_of(brokers, Forgetful)
    difference, _ = await nodes.run(steps, late_seconds=0.0)
    assert difference is not None
    assert (difference.step, "GetEmpty" in difference.said) == (6, True)
    left = [step.kind for step in await nodes.shrunk(steps, tries=1, late_seconds=0.0)]
    assert left == ["declare", "publish", "get", "settle", "get"]


@pytest.mark.parametrize(
    "kinds",
    [
        ({"x-retention": "7D"}, {"x-queue-type": "stream"}, {}),
        ({"x-queue-type": "stream"}, {}, {"x-retention": "7D"}),
    ],
)
async def test_what_is_left_is_read_of_all_queues(
    brokers: MirroredBrokers, kinds: tuple[dict[str, str], ...]
) -> None:
    world = World("/", (brokers.leader().port,) * CLIENTS)
    publish = {"settled": None, "immediate": False}
    run = {"exchange": "", "count": 1, "headers": {}, "mandatory": False}
    run |= {"delivery_mode": 2, "priority": None, "expiration": None}
    await world.begin()
    async with contextlib.AsyncExitStack() as after:
        after.push_async_callback(world.end)
        for n, (queue, arguments) in enumerate(zip(QUEUES, kinds, strict=True)):
            declare = {"queue": queue, "durable": True, "arguments": arguments}
            await world.carry_out(Step(0, 1, "declare", declare))
            after.push_async_callback(world.carry_out, Step(2, 1, "delete", {"queue": queue}))
            runs = [{**run, "key": queue, "first": n}]
            await world.carry_out(Step(0, 1, "publish", {**publish, "runs": runs}))
        await world.settle()
        await world.drain()
        kept = {queue for queue, kind in zip(QUEUES, kinds, strict=True) if kind}
        assert {each.queue for each in world.consumers()} == kept
        assert set(_bodies(world, "from")) == {b"m%d" % QUEUES.index(queue) for queue in kept}
        got = {b"m%d" % n for n, kind in enumerate(kinds) if "x-queue-type" not in kind}
        assert set(_bodies(world, "answers")) == got


def _lettered(arguments: Mapping[str, Any], expiration: str | None) -> list[Step]:
    """Two queues, and messages of the first one that become letters one by one: no two neighbours are alike."""
    kinds = {"q0": {**LETTERS, **arguments}, "q1": {}}
    steps = [
        Step(0, 1, "declare", {"queue": queue, "durable": True, "arguments": kind})
        for queue, kind in kinds.items()
    ]
    run = {"exchange": "", "key": "q0", "count": 1, "headers": {}, "mandatory": False}
    for n in range(LETTERED):
        own = {"first": n, "delivery_mode": 1 + n % 2, "expiration": expiration if n else None}
        runs = [{**run, **own, "priority": None}]
        steps.append(Step(0, 1, "publish", {"runs": runs, "settled": None, "immediate": False}))
    return steps


async def test_letters_of_what_is_left_are_waited_for(brokers: MirroredBrokers) -> None:
    world = World("/", (brokers.leader().port,) * CLIENTS)
    await world.begin()
    async with contextlib.AsyncExitStack() as after:
        after.push_async_callback(world.end)
        for queue in ("q0", "q1"):
            after.push_async_callback(world.carry_out, Step(2, 1, "delete", {"queue": queue}))
        for step in _lettered({}, "0"):
            await world.carry_out(step)
        await world.settle()
        await world.drain()
        assert list(_bodies(world, "answers")) == [b"m%d" % n for n in range(LETTERED)]


async def test_letters_of_a_channel_that_ends_are_waited_for(brokers: MirroredBrokers) -> None:
    steps = [
        *_lettered({"x-delivery-limit": 0}, None),
        *[Step(0, 1, "get", {"queue": "q0", "no_ack": False})] * LETTERED,
        Step(0, 1, "close", hurries=True),
        Step(0, 1, "declare", {"queue": "q1", "passive": True}),
    ]
    for _ in range(TIMES):
        difference, _ = await nodes_of(brokers).run(steps)
        assert difference is None, told(steps, difference)


def _bodies(world: World, stream: str) -> Iterator[bytes]:
    for name, events in world.seen().items():
        if stream in name:
            yield from (each["body"] for each in events if isinstance(each, dict))
