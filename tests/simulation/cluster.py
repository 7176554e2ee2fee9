"""One history of a cluster, drawn from a seed: faults, then peace, then one fault more, then peace."""

import logging
import os
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from simulation.broker import Broker, at_once
from simulation.checker import Checker, Violation
from simulation.clients import Clients
from simulation.coordinator import Coordinator
from simulation.faults import Faults
from simulation.network import Network
from simulation.node import SHARD, Node
from simulation.scheduler import Scheduler
from simulation.timeline import told

from routelog.log_backend.journal import journal
from routelog.mirror_cluster.coordination.refused_record import most, refusing, serving
from routelog.mirror_cluster.protocol.shard_record import ShardRecord
from routelog.mirror_cluster.replica.settings import ReplicaSettings

FAULT_SECONDS = 20.0
HEAL_SECONDS = 30.0
# With a lease of 2 s: a claim, two elections that fail, a set without the dead
FAILOVER_SECONDS = 10.0
STEADY_SECONDS = 3.0
PUBLISH_SECONDS = 0.08
OPERATOR_SECONDS = 2.0  # in which each node that runs has told what it refuses
CLUSTER = 7
WINDOW_BYTES = 560  # some 16 blocks
BROKERS_EVERY = 50  # seeds: the brokers of one take as long as the journals of thirty
TOLD_SECONDS = 0.5
MEMORY = "/dev/shm"  # brokers write much, and nothing that has to stay


@dataclass(frozen=True)
class Outcome:
    """What became of a seed: what was counted, and the violation if there was one."""

    seed: int
    counts: dict[str, int]
    violation: str | None
    timeline: list[str]


class Cluster:
    """Nodes, network, coordinator, clients and faults, all from one seed."""

    node_type: type[Node] = Node
    faults_type: type[Faults] = Faults
    window_bytes = WINDOW_BYTES

    def __init__(self, seed: int, traces: bool = False, directory: Path | None = None) -> None:
        self.seed = seed
        self._randomness = Random(seed)
        self._traces = traces
        self.timeline: list[str] = []
        self.scheduler = Scheduler()
        self.network = Network(self.scheduler, self._part())
        size = self._randomness.choice((3, 3, 3, 3, 5, 2))
        min_in_sync = 1 if size == 2 else self._randomness.choice((2, 2, (size + 1) // 2))
        self.settings = ReplicaSettings(min_in_sync=min_in_sync, window_bytes=self.window_bytes)
        # What an operator gives up no client can count on.
        self.has_operator = self._randomness.random() < 0.3 and directory is None
        self.uses_wire_format = self._randomness.random() < 0.1
        self.wiped = 0
        self.nodes: dict[str, Node] = {}
        for name in "abcde"[:size]:
            self.nodes[name] = self.node_type(self, name, self._part())
        record = ShardRecord(
            shard=SHARD,
            leader="",
            claim=0,
            epoch=0,
            in_sync=frozenset(self.nodes),
            replicas=tuple(self.nodes),
            incarnations=dict(node.member for node in self.nodes.values()),
            cluster=CLUSTER,
            revision=1,
        )
        self.coordinator = Coordinator(self.scheduler, self.network, self._part(), record)
        self.checker = Checker(self)
        self.coordinator.changed = self._record_changed
        self.faults = self.faults_type(self, self._part())
        self._directory = directory
        self.clients: Clients | None = None
        if directory is not None:
            self.clients = Clients(self._part(), self._confirmed)
            self.checker.counts["brokers"] += 1
        self._published = 0
        self._refusing = False

    @property
    def directory(self) -> Path:
        """Where brokers have their data."""
        assert self._directory is not None
        return self._directory

    @contextmanager
    def another_broker(self, data: Path | None = None) -> Iterator[Broker]:
        """A broker that belongs to no node: with nothing, or with a node's data."""
        number = self.checker.counts["accounts"]
        broker = Broker(data or self.directory / str(number), lambda: self.scheduler.now)
        try:
            yield broker
        finally:
            broker.kill()

    def _confirmed(self) -> None:
        self.checker.counts["confirms"] += 1

    def _part(self) -> Random:
        return Random(self._randomness.getrandbits(64))

    def trace(self, who: str, what: Any) -> None:
        """Write a line of the timeline, if somebody is to read it."""
        if self._traces:
            self.timeline.append(f"{self.scheduler.now:9.4f}  {who:7}  {told(what)}")

    def _operate(self) -> None:
        """As an operator does who is told what nodes refuse, and who has what was confirmed."""
        notes = self.coordinator.notes
        found = {} if self.coordinator.is_away else refusing(notes)
        if found and self._refusing and notes.keys() == self.nodes.keys():
            best = most(self.coordinator.record, notes)
            if serving(self.coordinator.record, notes):
                for name in found:
                    self.trace("operator", f"repairs {name}")
                    self.nodes[name].wipe(1.0)
            elif best and self.coordinator.alive.processes[best] == self.nodes[best].process:
                self.trace("operator", f"begins again with {best}")
                self.checker.counts["begun again"] += 1
                self.nodes[best].begin_again()
        self._refusing = bool(found)
        self.scheduler.after(OPERATOR_SECONDS, self._operate)

    def _record_changed(self, before: ShardRecord, after: ShardRecord) -> None:
        self.trace("etcd", after)
        self.checker.changed(before, after)

    def run(self) -> None:
        """Live through it.

        Raises:
            Violation: an invariant does not hold.
        """
        for node in self.nodes.values():
            node.start()
        self._publish()
        self._operate()
        self.faults.begin()
        self.scheduler.run_until(FAULT_SECONDS)
        self.faults.end()
        self.trace("faults", "healed")
        self._wait(HEAL_SECONDS, "I16: not healed", self._is_well)
        if len(self.nodes) > 2:
            self.scheduler.run_until(self.scheduler.now + STEADY_SECONDS)
            self._wait(HEAL_SECONDS, "I16: not steady", self._is_well)
            kind = self.faults.last()
            confirms = self.checker.counts["confirms"]
            self._wait(
                FAILOVER_SECONDS,
                f"I16: no confirm with the leader {kind}",
                lambda: None if self.checker.counts["confirms"] > confirms + 10 else "none",
            )
            self.faults.end()
        self._published = -1
        self._wait(HEAL_SECONDS, "I9: not equal", self.checker.agreed)
        self.checker.finish()
        if self.clients is not None:
            self._account(self.clients)

    def _account(self, clients: Clients) -> None:
        """Every node in its turn leads alone, until nothing is delayed any more."""
        now = self.scheduler.now
        for node in self.nodes.values():
            node.crash(power=False, restart_after=None)
        for name in self.nodes:
            self.scheduler.now = now
            with self.another_broker(self.directory / name) as broker:
                self.checker.tells_in_the_end(name, broker, clients)

    def _is_well(self) -> str | None:
        record = self.coordinator.record
        if record is None or self.coordinator.is_set_back:
            return "the record is not what it was"
        replicas = [node.replica for node in self.nodes.values() if node.replica is not None]
        if any(each.known.refusal(record) for each in replicas):
            return "a node knows of a later record"
        if record.in_sync != set(record.replicas):
            return f"in sync are {sorted(record.in_sync)}"
        if any(node.drains for node in self.nodes.values()):
            return "a node is about to stop"
        rotten = [node.disk.platter.rotten for node in self.nodes.values()]
        if any(rotten) and not frozenset.intersection(*rotten):
            return "some nodes cannot read what others can"
        leader = self.nodes.get(record.leader)
        return None if leader is not None and leader.serves else "nobody serves"

    def _wait(self, seconds: float, text: str, missing: Any) -> None:
        ends = self.scheduler.now + seconds
        while (what := missing()) is not None:
            if self.scheduler.now >= ends:
                raise Violation(f"{text} after {seconds:g} s: {what}")
            self.scheduler.run_until(self.scheduler.now + 0.25)

    def _publish(self) -> None:
        if self._published < 0:
            return
        for node in self.nodes.values():  # also who does not know yet that it was deposed
            if node.serves and (self.clients is None or self._randomness.random() < 0.5):
                self._published += 1
                node.submit(b"%d" % self._published)
        delay = self._randomness.expovariate(1 / PUBLISH_SECONDS)
        self.scheduler.after(delay, self._publish)


def has_brokers(seed: int) -> bool:
    """Whether the nodes of a seed are brokers; of the others only the journals are looked at."""
    return seed % BROKERS_EVERY == BROKERS_EVERY - 1


def run(seed: int, traces: bool = False, with_brokers: bool | None = None) -> Outcome:
    """The history of a seed; the same one each time.

    Args:
        with_brokers: None: as `has_brokers` says.
    """
    if not (has_brokers(seed) if with_brokers is None else with_brokers):
        return _run(Cluster(seed, traces))
    memory = MEMORY if os.path.isdir(MEMORY) else None
    with (
        TemporaryDirectory(prefix="simulation-", dir=memory) as directory,
        patch.object(ThreadPoolExecutor, "submit", at_once),
        patch.object(journal, "TOLD_SECONDS_MAX", TOLD_SECONDS),
        errors_logged() as errors,
    ):
        outcome = _run(Cluster(seed, traces, Path(directory)))
    if errors and outcome.violation is None:
        return replace(outcome, violation=f"an error is logged: {errors[0]}")
    return outcome


@contextmanager
def errors_logged() -> Iterator[list[str]]:
    """What brokers log as an error, which nobody expects here."""
    found: list[str] = []
    handler = logging.Handler(logging.ERROR)
    handler.emit = lambda record: found.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("routelog")
    logger.addHandler(handler)
    try:
        yield found
    finally:
        logger.removeHandler(handler)


def _run(cluster: Cluster) -> Outcome:
    violation = None
    try:
        cluster.run()
    except Violation as error:
        violation = str(error)
    except Exception as error:  # a fault of the core, or of this simulation, is a finding, too
        violation = f"{type(error).__name__}: {error}"
        cluster.timeline += traceback.format_exc().splitlines()
    cluster.trace("checker", violation)
    for node in cluster.nodes.values():
        node.stays_down = True
        node.crash(power=False, restart_after=None)
    return Outcome(cluster.seed, dict(cluster.checker.counts), violation, cluster.timeline)
