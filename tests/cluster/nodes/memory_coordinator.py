"""A coordinator in memory, for nodes of one process."""

from dataclasses import replace

from routelog.mirror_cluster.coordination.coordinator import ClusterView, NodeEntry
from routelog.mirror_cluster.protocol.shard_record import ShardRecord

LEASE_SECONDS = 60.0


class Held:
    """What a coordinator holds."""

    def __init__(self) -> None:
        self.revision = 0
        self.records: dict[int, ShardRecord] = {}
        self.nodes: dict[str, NodeEntry] = {}


class MemoryCoordinator:
    """One node's connection with it; see `EtcdCoordinator`."""

    def __init__(self, held: Held) -> None:
        self._held = held
        self._node = ""

    async def read(self) -> ClusterView:
        """See `EtcdCoordinator`."""
        held = self._held
        return ClusterView(held.revision, dict(held.records), dict(held.nodes))

    async def propose(
        self, record: ShardRecord, seen: ShardRecord | None = None
    ) -> ShardRecord | None:
        """See `EtcdCoordinator`."""
        held = self._held
        if held.records.get(record.shard) != seen:
            return None
        held.revision += 1
        held.records[record.shard] = accepted = replace(record, revision=held.revision)
        return accepted

    async def register(self, entry: NodeEntry) -> float:
        """See `EtcdCoordinator`."""
        self._held.revision += 1
        self._held.nodes[entry.node] = entry
        self._node = entry.node
        return LEASE_SECONDS

    async def renew(self) -> bool:
        """See `EtcdCoordinator`."""
        return self._node in self._held.nodes

    async def leave(self) -> None:
        """See `EtcdCoordinator`."""
        self._held.revision += 1
        self._held.nodes.pop(self._node, None)

    async def aclose(self) -> None:
        """See `EtcdCoordinator`."""
