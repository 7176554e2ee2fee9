"""A running node's store and its standby's, in the process of the test."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from cluster.nodes.store_node import QUIETER, NamedPartitions
from support.node_sockets import node_sockets
from support.waiting import until
from unit.log_backend.open_store import fill_journal_file, open_store, unsettled

from routelog.log_backend import Change, PartitionLog, SystemClock, SystemDisk
from routelog.mirror_cluster import StandbyDoor, StandbyNode, StandbyOptions, claim_epoch
from routelog.mirror_cluster.standby.follow_sender import StandbyLag

SECRET = b"a secret of this test"


def options(port: int, secret: bytes = SECRET) -> StandbyOptions:
    return StandbyOptions("orders", ("127.0.0.1", port), secret)


class LeadingStore:
    """A store that leads on its own, and its door for standbys; started again, it is another one."""

    def __init__(self, data: Path, port: int) -> None:
        self.store = store = open_store(data, replace(QUIETER, is_followed=True))
        self.door = StandbyDoor(options(port), store, SystemClock(), node_sockets())
        self.queues: dict[str, PartitionLog] = {}

    async def start(self) -> LeadingStore:
        """Recover, lead, listen."""
        store = self.store
        store.recover_metadata()
        for each in NamedPartitions(store.metadata).all():
            self.queues[each.queue] = store.open_partition(
                each.number, "/", each.queue, 0, durable=True
            )
        store.recover()
        store.start(claim_epoch(store.metadata, store.journal.recovered_epoch))
        await self.door.open()
        return self

    async def declare(self, queue: str) -> PartitionLog:
        """A durable queue, as the topology would declare it."""
        number = len(self.store.partitions) + 1
        await self.store.metadata_writer.submit([Change(b"p/%d" % number, queue.encode())])
        opened = self.store.open_partition(number, "/", queue, 0, durable=True)
        self.queues[queue] = opened
        return opened

    def lag(self) -> StandbyLag | None:
        """Of its only standby."""
        lags = self.door.lags()
        assert len(lags) <= 1
        return lags[0] if lags else None

    async def recycle(self, partition: PartitionLog, position: int = 0) -> None:
        """Publish until the files of the journal up to a position are given back."""
        while self.store.journal._blocks.base.position <= position:
            await fill_journal_file(self.store, partition)

    async def aclose(self) -> None:
        """End it."""
        await self.door.aclose()
        await self.store.aclose()


class FollowingStore:
    """A standby; started again, it is another one."""

    def __init__(self, data: Path, port: int, secret: bytes = SECRET) -> None:
        self.store = store = open_store(data, QUIETER)
        self.standby = StandbyNode(
            options(port, secret), "s@test", store, data, SystemDisk(), SystemClock()
        )

    async def start(self) -> FollowingStore:
        """Recover, and follow."""
        await self.standby.start(NamedPartitions(self.store.metadata))
        return self

    async def ended(self) -> str:
        """Wait until it wants to start again; why."""
        await until(self.standby.ended.done)
        return self.standby.ended.result()

    async def aclose(self) -> None:
        """End it."""
        await self.standby.aclose()
        await self.store.aclose()


async def caught_up(leader: LeadingStore, follower: FollowingStore) -> None:
    """The standby has what the node has, and they are equal."""
    ours, theirs = leader.store.journal, follower.store.journal

    def is_there() -> bool:
        lag = leader.lag()
        is_told = lag is not None and lag.is_connected and lag.bytes == 0
        return is_told and ours.groups.is_idle and ours.written == theirs.committed

    await until(is_there)
    assert ours.mark(ours.committed).checksum == theirs.end.checksum
    assert leader.store.partitions.keys() == follower.store.partitions.keys()
    for number, partition in leader.store.partitions.items():
        found = await unsettled(follower.store.partitions[number])
        assert found == await unsettled(partition)
