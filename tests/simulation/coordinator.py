"""The coordinator: compare-and-set, leases and watches, slow or away, and sometimes old news."""

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

from simulation.network import Network
from simulation.scheduler import Scheduler

from routelog.mirror_cluster.coordination.coordinator import ReplicaNote
from routelog.mirror_cluster.protocol.promise import Promise
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
        self.record: ShardRecord | None = record
        self.was_set_back = False
        self.is_set_back = False  # or emptied: until a leader serves
        self.last = record  # also while there is none
        self.is_away = False
        self.slowness = 0.0
        self.stale_reads = 0.0
        self.deaf: set[str] = set()  # nodes whose watch was compacted away
        self.watchers: dict[str, Callable[[Any], None]] = {}
        self.changed: Callable[[ShardRecord, ShardRecord], None] = lambda before, after: None
        self.under_way = 0  # proposals that were sent
        self._revision = record.revision
        self._life = 0
        self._history = [record]
        self._leases: dict[str, tuple[int, float]] = {}
        self._disks: dict[str, tuple[int, bool]] = {}  # as nodes said when they renewed
        self._notes: dict[str, ReplicaNote] = {}
        self._scheduler = scheduler
        self._network = network
        self._randomness = randomness

    @property
    def alive(self) -> NodesAlive:
        """The nodes that have a lease."""
        alive = {node: process for node, (process, _) in sorted(self._leases.items())}
        disks = {node: self._disks[node] for node in alive}
        rotten = frozenset(node for node, (_, is_rotten) in disks.items() if is_rotten)
        numbers = {node: disk for node, (disk, _) in disks.items()}
        promises = [note.promise for note in self.notes.values()]
        return NodesAlive(alive, rotten, numbers, promises)

    @property
    def notes(self) -> dict[str, ReplicaNote]:
        """What the nodes that have a lease tell of their replicas."""
        notes = sorted(self._notes.items())
        return {node: note.beside(self.record) for node, note in notes if node in self._leases}

    def propose(
        self, node: str, record: ShardRecord, seen: ShardRecord | None, reply: Reply
    ) -> None:
        """Compare and set; the reply has the new record or None."""
        self.under_way += 1
        self._scheduler.after(10.0, self._forget_proposal)
        self._request(node, self._set, node, record, seen, reply)

    def read(self, node: str, reply: Reply) -> None:
        """The reply has the record, who is alive, and whether it is one that was on its way for long."""
        self._request(node, self._read, node, reply)

    def renew(
        self, node: str, process: int, disk: tuple[int, bool], note: ReplicaNote, reply: Reply
    ) -> None:
        """Hold a node's lease, and list it."""
        self._request(node, self._renew, node, process, disk, note, reply)

    @property
    def records(self) -> int:
        """How many there have been."""
        return len(self._history)

    def set_back(self, records: int, *, with_leases: bool) -> None:
        """It is what it was so many records before: a snapshot was restored.

        Args:
            with_leases: those of now, but what nodes tell is what they told then.
        """
        del self._history[-records:]
        self.record = self.last = self._history[-1]
        self._revision = self.record.revision + self._randomness.randrange(3)
        self._notes = {node: self._note_then(node, self.record) for node in self._notes}
        self._lose(with_leases)

    @staticmethod
    def _note_then(node: str, record: ShardRecord) -> ReplicaNote:
        leads = node == record.leader
        promise = Promise.of(record, node)
        return ReplicaNote(promise, "", leads, leads, node in record.in_sync)

    def empty(self, *, with_leases: bool) -> None:
        """Nothing is there any more; a new one counts from the start."""
        self.record = None
        self._history.clear()
        self._revision = self._randomness.choice((1, self._revision))
        self._notes.clear()
        self._lose(with_leases)

    def _lose(self, with_leases: bool) -> None:
        self.is_set_back = self.was_set_back = True
        self.forget_requests()
        if not with_leases:
            self._leases.clear()

    def forget_requests(self) -> None:
        """What it was asked, and has not done yet, it does not do any more."""
        self._life += 1

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
        self._scheduler.after(delay, self._now, self._life, call, *arguments)

    def _now(self, life: int, call: Reply, *arguments: Any) -> None:
        if life == self._life:
            call(*arguments)

    def _answer(self, node: str, reply: Reply, *arguments: Any) -> None:
        if not self.is_away:
            self._network.send(ETCD, node, reply, *arguments)

    def _set(self, node: str, record: ShardRecord, seen: ShardRecord | None, reply: Reply) -> None:
        if self.is_away:
            return
        if not self.may_set(seen):
            self._answer(node, reply, None)
            return
        self._revision += self._randomness.randrange(1, 4)  # other keys change, too
        before, self.last = self.last, replace(record, revision=self._revision)
        self.record = self.last
        self._history.append(self.last)
        self.changed(before, self.last)
        self._answer(node, reply, self.record)
        self._notify(RecordSeen(self.record, is_fresh=False))

    def may_set(self, seen: ShardRecord | None) -> bool:
        """The compare of compare-and-set."""
        return seen == self.record

    def _read(self, node: str, reply: Reply) -> None:
        is_late = self._randomness.random() < self.stale_reads and self.record is not None
        record = self._randomness.choice(self._history[-4:]) if is_late else self.record
        self._answer(node, reply, record, self.alive, is_late)

    def _renew(
        self, node: str, process: int, disk: tuple[int, bool], note: ReplicaNote, reply: Reply
    ) -> None:
        before = self.alive
        self._disks[node], self._notes[node] = disk, note
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
