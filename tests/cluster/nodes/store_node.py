"""A node whose shard is a whole log store, in the process of the test."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from cluster.nodes.memory_coordinator import LEASE_SECONDS, Held, MemoryCoordinator
from support.node_sockets import node_sockets
from support.ports import free_port
from support.waiting import until
from unit.log_backend.open_store import SMALL, open_store

from routelog.log_backend import (
    BlockApplier,
    Change,
    DeclaredPartition,
    JournalExtent,
    MetadataStore,
    PartitionLog,
    ShardBlock,
    SystemClock,
    SystemDisk,
    take_copied,
)
from routelog.log_backend.journal.journal_block import decode_entries
from routelog.mirror_cluster.links.node_links import LinkSecurity
from routelog.mirror_cluster.node.cluster_node import ClusterNode, NodeSettings
from routelog.mirror_cluster.node.copy_receiver import CopyReceiver
from routelog.mirror_cluster.node.copy_sender import CopySender
from routelog.mirror_cluster.node.incarnation import read_incarnation
from routelog.mirror_cluster.node.journal_storage import JournalStorage, KeptPromise
from routelog.mirror_cluster.node.lease_keeper import DiskProbe
from routelog.mirror_cluster.replica.settings import ReplicaSettings
from routelog.mirror_cluster.replica.shard_log import ShardLog

SHARD = 0
QUIETER = replace(SMALL, flush_seconds=3600.0)


class NamedPartitions:
    """The records of the test's queues: `p/<number>` has the name."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    def all(self) -> Iterator[DeclaredPartition]:
        """See `PartitionRecords`."""
        return self.of([key for key, _ in self._store.scan(b"p/")])

    def of(self, keys: Iterable[bytes]) -> Iterator[DeclaredPartition]:
        """See `PartitionRecords`."""
        for key in keys:
            entry = self._store.get(key) if key.startswith(b"p/") else None
            if entry is not None:
                yield DeclaredPartition(int(key[2:]), "/", entry.value.decode(), 0)


class StoreNode:
    """One node, from its start to its end; started again, it is another one.

    Attributes:
        took_copy: a copy took the place of its data when it started.
        epoch: that it serves.
        ended: why it wants to end.
    """

    def __init__(self, name: str, data: Path, held: Held) -> None:
        self.name = name
        self.epoch = 0
        self.ended = ""
        disk, clock = SystemDisk(), SystemClock()
        disk.make_directory(data)
        self.took_copy = take_copied(data, disk)
        self.store = store = open_store(data, QUIETER)
        self.storage = JournalStorage(
            SHARD,
            read_incarnation(data, disk),
            store.journal,
            KeptPromise(data, disk),
            self._apply,
            lambda: True,
            lambda blocks: None,
            lambda error: self.end(repr(error)),
        )
        port = free_port()
        settings = NodeSettings(
            "orders",
            name,
            read_incarnation(data, disk),
            f"127.0.0.1:{port}",
            "127.0.0.1",
            port,
            LinkSecurity(b"a secret of this test"),
            LEASE_SECONDS,
            ReplicaSettings(min_in_sync=1),
        )
        probe = DiskProbe(data, disk)
        self.node = ClusterNode(
            settings, clock, MemoryCoordinator(held), probe.sync, self, node_sockets()
        )
        self.sender = CopySender(
            store.copies,
            lambda node: node in self.node.view.records[SHARD].in_sync,
            lambda: True,
        )
        connect = self.node.links.connect_copy
        self.storage.receiver = CopyReceiver(connect, data, disk, clock, 0, lambda: None)

    async def start(self) -> StoreNode:
        """Recover, follow, and take part."""
        journal = self.store.journal
        committed = JournalExtent(self.store.metadata).committed
        self.marks = journal.replicate(SHARD, self.storage, committed)
        self.store.recover_metadata()
        self.follower = BlockApplier(self.store, NamedPartitions(self.store.metadata))
        journal.follow()
        await self.storage.open(self.marks)
        await self.node.start([self.storage])
        return self

    async def lead_alone(self, *replicas: str) -> None:
        """Make the shard, and lead it."""
        await self.node.begin_shard(SHARD, replicas)
        await until(lambda: self.epoch)

    async def declare(self, queue: str) -> PartitionLog:
        """A durable queue, as the topology would declare it."""
        number = len(self.store.partitions) + 1
        await self.store.metadata_writer.submit([Change(b"p/%d" % number, queue.encode())])
        return self.store.open_partition(number, "/", queue, 0, durable=True)

    async def aclose(self) -> None:
        """End it."""
        await self.sender.aclose()
        if self.epoch:
            await self.store.aclose()  # what is told at its end is committed
            await self.node.aclose()
        else:
            await self.node.aclose()
            await self.store.aclose()

    @property
    def replica_log(self) -> ShardLog:
        """What its replica knows of the journal."""
        return self.node.replicas[SHARD].replica.log

    def _apply(self, block: ShardBlock) -> None:
        self.follower.apply(block.position, list(decode_entries(block.payload)))

    # -- see `ShardOwner`

    def serve(self, shard: int, epoch: int) -> None:
        """See `ShardOwner`."""
        self.store.start(epoch)
        self.node.links.take_copier = self.sender.take
        self.epoch = epoch

    def stop_serving(self, shard: int, reason: str) -> None:
        """See `ShardOwner`."""

    def drained(self, shard: int) -> None:
        """See `ShardOwner`."""

    def end(self, reason: str) -> None:
        """See `ShardOwner`."""
        self.ended = self.ended or reason
