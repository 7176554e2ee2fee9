"""The coordinator: compare-and-set, leases and watches, slow or away, and sometimes old news."""

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

from simulation.network import Network
from simulation.scheduler import Scheduler

from routelog.mirror_cluster.protocol.shard_record import ShardRecord
from routelog.mirror_cluster.replica.events import NodesAlive, RecordSeen

ETCD = "etcd"
LEASE_SECONDS = 2.0

Reply = Callable[..., Any]


class Coordinator:
    """One etcd, as its clients see it."""

    def __init__(
        self, scheduler: Scheduler, network: Network, randomness: Random, record: ShardRecord
    ) -> None:
        self.record = record
        self.is_away = False
        self.slowness = 0.0
        self.stale_reads = 0.0
        self.deaf: set[str] = set()  # nodes whose watch was compacted away
        self.watchers: dict[str, Callable[[Any], None]] = {}
        self.changed: Callable[[ShardRecord, ShardRecord], None] = lambda before, after: None
        self.under_way = 0  # proposals that were sent
        self._history = [record]
        self._leases: dict[str, tuple[int, float]] = {}
        self._disks: dict[str, tuple[int, bool]] = {}  # as nodes said when they renewed
        self._scheduler = scheduler
        self._network = network
        self._randomness = randomness

    @property
    def alive(self) -> NodesAlive:
        """The nodes that have a lease."""
        alive = {node: process for node, (process, _) in sorted(self._leases.items())}
        disks = {node: self._disks[node] for node in alive}
        rotten = frozenset(node for node, (_, is_rotten) in disks.items() if is_rotten)
        return NodesAlive(alive, rotten, {node: disk for node, (disk, _) in disks.items()})

    def propose(self, node: str, record: ShardRecord, reply: Reply) -> None:
        """Compare and set; the reply has the new record or None."""
        self.under_way += 1
        self._scheduler.after(10.0, self._forget_proposal)
        self._request(node, self._set, node, record, reply)

    def read(self, node: str, reply: Reply) -> None:
        """The reply has the record, perhaps an old one, and who is alive."""
        self._request(node, self._read, node, reply)

    def renew(self, node: str, process: int, disk: tuple[int, bool], reply: Reply) -> None:
        """Hold a node's lease."""
        self._request(node, self._renew, node, process, disk, reply)

    def restart(self) -> None:
        """It is back; all leases begin anew."""
        self.is_away = False
        for node, (process, _) in sorted(self._leases.items()):
            self._hold(node, process)

    def _forget_proposal(self) -> None:
        self.under_way -= 1

    def _request(self, node: str, call: Reply, *arguments: Any) -> None:
        self._network.send(node, ETCD, self._later, call, *arguments)

    def _later(self, call: Reply, *arguments: Any) -> None:
        if self.is_away:
            return
        delay = self._randomness.uniform(0.001, 0.004)
        if self.slowness:
            delay += self._randomness.uniform(0, self.slowness)
        self._scheduler.after(delay, call, *arguments)

    def _answer(self, node: str, reply: Reply, *arguments: Any) -> None:
        if not self.is_away:
            self._network.send(ETCD, node, reply, *arguments)

    def _set(self, node: str, record: ShardRecord, reply: Reply) -> None:
        if self.is_away:
            return
        if not self.may_set(record):
            self._answer(node, reply, None)
            return
        before, self.record = self.record, replace(record, revision=self.record.revision + 1)
        self._history.append(self.record)
        self.changed(before, self.record)
        self._answer(node, reply, self.record)
        self._notify(RecordSeen(self.record))

    def may_set(self, record: ShardRecord) -> bool:
        """The compare of compare-and-set."""
        return record.revision == self.record.revision

    def _read(self, node: str, reply: Reply) -> None:
        record = self.record
        if self.stale_reads and self._randomness.random() < self.stale_reads:
            record = self._randomness.choice(self._history[-4:])
        self._answer(node, reply, record, self.alive)

    def _renew(self, node: str, process: int, disk: tuple[int, bool], reply: Reply) -> None:
        before = self.alive
        self._disks[node] = disk
        self._hold(node, process)
        self._answer(node, reply)
        if self.alive != before:
            self._notify(self.alive)

    def _hold(self, node: str, process: int) -> None:
        self._leases[node] = (process, self._scheduler.now + LEASE_SECONDS)
        self._scheduler.after(LEASE_SECONDS + 0.001, self._expire, node)

    def _expire(self, node: str) -> None:
        lease = self._leases.get(node)
        if lease and not self.is_away and lease[1] <= self._scheduler.now:
            del self._leases[node]
            self._notify(self.alive)

    def _notify(self, event: Any) -> None:
        for node, watcher in sorted(self.watchers.items()):
            if node not in self.deaf:
                self._answer(node, watcher, event)
