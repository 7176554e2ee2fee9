"""A node's lease, with a coordinator and a disk that the test holds up."""

import asyncio
from collections.abc import Coroutine
from dataclasses import replace

import pytest

from routelog.mirror_cluster.coordination.coordinator import (
    CoordinatorUnavailable,
    NodeEntry,
    NodeNameTaken,
    ReplicaNote,
)
from routelog.mirror_cluster.node.lease_keeper import LeaseKeeper
from routelog.mirror_cluster.replica.lease import Lease

ENTRY = NodeEntry("a", 7, "a:1", 1)


class LeaseSurroundings:
    """Coordinator, disk, clock and owner of a keeper."""

    def __init__(self) -> None:
        self.now = 100.0
        self.may_sync, self.may_answer = asyncio.Event(), asyncio.Event()
        self.may_sync.set()
        self.may_answer.set()
        self.is_registered = False
        self.problem: Exception | None = None
        self.registrations = self.syncs = 0
        self.held: list[bool] = []
        self.tasks: list[asyncio.Task] = []
        lease = Lease(2.0, 0.3)
        self.entry = ENTRY
        self.keeper = LeaseKeeper(
            lease, self, self, lambda: self.entry, self.probe, self.held.append, self.spawn
        )

    def monotonic(self) -> float:
        return self.now

    def spawn(self, work: Coroutine) -> asyncio.Task:
        self.tasks.append(asyncio.create_task(work))
        return self.tasks[-1]

    async def probe(self) -> None:
        await self.may_sync.wait()
        self.syncs += 1

    async def renew(self) -> bool:
        await self.may_answer.wait()
        if self.problem is not None:
            raise self.problem
        return self.is_registered

    async def register(self, entry: NodeEntry) -> float:
        await self.may_answer.wait()
        if self.problem is not None:
            raise self.problem
        assert entry == self.entry
        self.registrations += 1
        self.is_registered = True
        return 2.0

    async def live(self, seconds: float) -> None:
        for _ in range(int(seconds * 10)):
            self.now += 0.1
            self.keeper.tick()
            for _ in range(4):
                await asyncio.sleep(0)


async def test_it_is_registered_once_and_renewed_with_each_sync() -> None:
    node = LeaseSurroundings()
    await node.live(4)
    assert (node.held, node.registrations) == ([True], 1)
    assert node.syncs >= 7
    node.is_registered = False  # it has ended
    await node.live(1)
    assert node.registrations == 2


async def test_a_disk_that_hangs_renews_nothing() -> None:
    node = LeaseSurroundings()
    await node.live(1)
    node.may_sync.clear()
    await node.live(3)
    assert node.held == [True, False]
    node.may_sync.set()
    await node.live(1)
    assert node.held == [True, False, True]
    await asyncio.gather(*node.tasks)


async def test_two_registrations_are_not_under_way_at_once() -> None:
    node = LeaseSurroundings()
    node.may_answer.clear()
    await node.live(3)
    node.may_answer.set()
    await node.live(0.1)
    assert node.registrations == 1
    assert node.held == [], "what was asked for three seconds ago has ended"
    await node.live(1)
    assert node.held == [True]


async def test_a_node_that_is_listed_otherwise_than_it_is_registers_again() -> None:
    node = LeaseSurroundings()
    await node.live(1)
    for listed in (ENTRY, None, replace(ENTRY, notes={0: ReplicaNote(end=(1, 2))})):
        before = node.registrations
        node.keeper.listed(listed)
        await node.live(2)
        assert node.registrations == before + (listed != ENTRY), "once"


async def test_a_coordinator_that_refuses_or_is_away_is_asked_again() -> None:
    node = LeaseSurroundings()
    for node.problem in (CoordinatorUnavailable("away"), NodeNameTaken("a")):
        await node.live(2)
        assert node.held == []
    node.problem = None
    await node.live(1)
    assert node.held == [True]


async def test_a_trouble_that_stays_is_told_at_once_and_then_once_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    node = LeaseSurroundings()

    def told() -> int:
        return sum("the lease was not renewed: away" in each for each in caplog.messages)

    node.problem = CoordinatorUnavailable("away")
    await node.live(50)
    assert told() == 1
    await node.live(20)
    assert told() == 2
    node.problem = None
    await node.live(1)
    node.problem = CoordinatorUnavailable("away")
    await node.live(1)
    assert told() == 3, "it is another one"


async def test_another_entry_is_registered_with_the_next_renewal() -> None:
    node = LeaseSurroundings()
    await node.live(3)
    assert node.registrations == 1
    node.problem = CoordinatorUnavailable("away")
    node.entry = replace(ENTRY, is_damaged=True)
    await node.live(1)
    node.problem = None
    await node.live(1)
    assert node.registrations == 2
