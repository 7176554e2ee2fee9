"""What goes wrong, and when: drawn from the seed, one fault over the other."""

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from simulation.coordinator import ETCD

from routelog.mirror_cluster.protocol.promise import Promise
from routelog.mirror_cluster.replica import events as on
from routelog.mirror_cluster.replica.actions import (
    Action,
    CopyCheckpoint,
    Propose,
    SavePromise,
    Truncate,
)

if TYPE_CHECKING:
    from simulation.cluster import Cluster
    from simulation.node import Node

_DELICATE = Truncate | SavePromise | Propose | CopyCheckpoint


class Faults:
    """The nemesis of one cluster."""

    def __init__(self, cluster: "Cluster", randomness: Random) -> None:
        self._cluster = cluster
        self._randomness = randomness
        self._ended = False
        # A seed has favourites, so that some histories are full of one thing.
        self._weights = [randomness.choice((0, 1, 1, 3, 8)) for _ in self._KINDS]
        if not any(self._weights):
            self._weights[0] = 1
        self._pace = randomness.choice((0.4, 1.0, 2.5))
        self._temptation = randomness.choice((0.0, 0.1, 0.5))

    def begin(self) -> None:
        """Let things go wrong from here on."""
        self._cluster.scheduler.after(self._randomness.expovariate(1 / self._pace), self._strike)

    def end(self) -> None:
        """Heal everything; nodes that are down come back."""
        self._ended = True
        cluster = self._cluster
        cluster.network.cuts.clear()
        cluster.network.lost.clear()
        cluster.network.drop = cluster.network.duplicate = cluster.network.jitter = 0.0
        cluster.coordinator.slowness = cluster.coordinator.stale_reads = 0.0
        cluster.coordinator.deaf.clear()
        if cluster.coordinator.is_away:
            cluster.coordinator.restart()
        for node in cluster.nodes.values():
            node.disk.hangs_until = 0.0
            node.resume()
            node.stays_down = False
            node.start()

    def last(self) -> str:
        """One more, which a cluster of three or more must do without: its leader has it."""
        cluster = self._cluster
        leader = cluster.nodes[cluster.coordinator.last.leader or "a"]
        kind = self._randomness.choice(
            ("nothing", "killed", "paused", "cut off", "disk hangs", "transfer", "no coordinator")
        )
        match kind:
            case "killed":
                leader.crash(power=True, restart_after=None)
                leader.stays_down = True
            case "paused":
                leader.pause()
            case "cut off":
                self._cut_off({leader.name})
            case "disk hangs":
                leader.disk.hangs_until = cluster.scheduler.now + 60.0
            case "transfer":
                leader.handle(on.Transfer())
            case "no coordinator":
                cluster.coordinator.is_away = True
        cluster.trace("faults", f"the last: {leader.name}: {kind}")
        return kind

    def tempt(self, node: "Node", action: Action) -> None:
        """Strike perhaps just when a node has begun something that must be whole."""
        if self._ended or not isinstance(action, _DELICATE):
            return
        if self._randomness.random() < self._temptation:
            delay = self._randomness.uniform(0.0, 0.02)
            if self._randomness.random() < 0.5:  # or another one that takes part
                node = self._randomness.choice(list(self._cluster.nodes.values()))
            self._heals(delay, self._strike_at, node, node.process)

    def _strike_at(self, node: "Node", process: int) -> None:
        if node.process == process:
            self._note(f"tempted: {node.name}")
            self._randomness.choice((self._kill, self._kill, self._pause, self._cut))(node)

    def _strike(self) -> None:
        if self._ended:
            return
        kind = self._randomness.choices(self._KINDS, self._weights)[0]
        kind(self, self._some_node())
        self.begin()

    def _some_node(self) -> "Node":
        nodes = self._cluster.nodes
        leader = nodes.get(self._cluster.coordinator.last.leader or "a")
        if leader is not None and self._randomness.random() < 0.4:
            return leader
        return self._randomness.choice(list(nodes.values()))

    def _heals(self, after: float, call: Callable[..., object], *arguments: object) -> None:
        def heal() -> None:
            if not self._ended:
                call(*arguments)

        self._cluster.scheduler.after(after, heal)

    def _note(self, text: str) -> None:
        self._cluster.checker.counts[text.partition(":")[0]] += 1
        self._cluster.trace("faults", text)

    # The kinds

    def _kill(self, node: "Node") -> None:
        self._note(f"kill: {node.name}")
        power = self._randomness.random() < 0.5
        is_seen = self._randomness.random() < 0.5
        node.crash(power, self._randomness.uniform(0.1, 6.0))
        if is_seen:
            for other in self._cluster.nodes.values():
                if self._cluster.network.is_open(other.name, node.name) and not other.is_paused:
                    other.handle(on.NodeGone(node.name))

    def _power_cut(self, node: "Node") -> None:
        self._note("power: all")
        for each in self._cluster.nodes.values():
            each.crash(power=True, restart_after=self._randomness.uniform(0.1, 4.0))

    def _pause(self, node: "Node") -> None:
        self._note(f"pause: {node.name}")
        node.pause()
        self._heals(self._randomness.uniform(0.2, 8.0), node.resume)

    def _cut(self, node: "Node") -> None:
        names = list(self._cluster.nodes)
        shape = self._randomness.randrange(5)
        match shape:
            case 0:
                cuts = self._cut_off({node.name})
            case 1:
                size = self._randomness.randrange(1, len(names))
                side = {*self._randomness.sample(names, size)}
                with_etcd = self._randomness.random() < 0.5
                cuts = self._cut_off(side | {ETCD} if with_etcd else side)
            case 2:
                other = self._randomness.choice([*names, ETCD])
                cuts = {(node.name, other)}
            case 3:
                cuts = {(node.name, ETCD), (ETCD, node.name)}
            case _:  # a bridge: all reach this one, and not each other
                cuts = {(a, b) for a in names for b in names if node.name not in (a, b)}
        self._cluster.network.cuts |= cuts
        self._note(f"cut: {sorted(cuts)}")
        self._heals(self._randomness.uniform(0.3, 8.0), self._mend, cuts)

    def _cut_off(self, side: set[str]) -> set[tuple[str, str]]:
        names = {*self._cluster.nodes, ETCD}
        cuts = {(a, b) for a in names for b in names if (a in side) != (b in side)}
        self._cluster.network.cuts |= cuts
        return cuts

    def _mend(self, cuts: set[tuple[str, str]]) -> None:
        self._cluster.network.cuts -= cuts

    def _flaky(self, node: "Node") -> None:
        network = self._cluster.network
        network.drop = self._randomness.choice((0.0, 0.02, 0.2))
        network.duplicate = self._randomness.choice((0.0, 0.1))
        network.jitter = self._randomness.choice((0.0, 0.01, 0.2))
        self._note(f"flaky: {network.drop} {network.duplicate} {network.jitter}")
        self._heals(self._randomness.uniform(0.5, 6.0), self._steady)

    def _steady(self) -> None:
        network = self._cluster.network
        network.drop = network.duplicate = network.jitter = 0.0

    def _hang(self, node: "Node") -> None:
        self._note(f"hang: {node.name}")
        node.disk.hangs_until = self._cluster.scheduler.now + self._randomness.uniform(0.2, 6.0)

    def _wipe(self, node: "Node") -> None:
        cluster = self._cluster
        record = cluster.coordinator.last
        others = [
            each
            for each in cluster.nodes.values()
            if each is not node and each.member in record.members
        ]
        if not others or cluster.coordinator.under_way or cluster.coordinator.is_set_back:
            return  # nobody could have what it had, or know what it knew
        self._note(f"wipe: {node.name}")
        cluster.wiped += 1
        node.wipe(self._randomness.choice((0.02, 0.3, 3.0)))

    def _rot(self, node: "Node") -> None:
        others = [each for each in self._cluster.nodes.values() if each is not node]
        place = self._randomness.randrange(3)
        if node.is_paused or node.disk.platter.is_rotten:
            return  # nothing but a copy puts it right
        if all(place in each.disk.platter.rotten for each in others):
            return
        self._note(f"rot: {node.name} at {place}")
        self._cluster.checker.rotten(node)
        node.rot(place)

    def _coordinator(self, node: "Node") -> None:
        coordinator = self._cluster.coordinator
        match self._randomness.randrange(4):
            case 0:
                self._note("coordinator: away")
                coordinator.is_away = True
                self._heals(self._randomness.uniform(0.3, 6.0), coordinator.restart)
            case 1:
                self._note("coordinator: slow")
                coordinator.slowness = self._randomness.choice((0.3, 1.5, 8.0))
                self._heals(self._randomness.uniform(0.5, 6.0), self._brisk)
            case 2:
                self._note("coordinator: old reads")
                coordinator.stale_reads = 0.7
                self._heals(self._randomness.uniform(1.0, 10.0), self._brisk)
            case _:
                self._note(f"coordinator: watch of {node.name} compacted")
                coordinator.deaf.add(node.name)
                self._heals(self._randomness.uniform(0.5, 8.0), coordinator.deaf.discard, node.name)

    def _set_back(self, node: "Node") -> None:
        """The coordinator is an older one, or an empty one.

        Any `min_in_sync` nodes have one among them that knows better, and all disks are those that knew it.
        """
        cluster, coordinator = self._cluster, self._cluster.coordinator
        is_able = 2 * cluster.settings.min_in_sync > len(cluster.nodes)
        # And know of the last record, so that none has led by one that was set back before.
        last = Promise.of(coordinator.last)
        promises = [each.disk.platter.promise for each in cluster.nodes.values()]
        known = all(each == last for each in promises) or not coordinator.was_set_back
        # What an operator gave up, he would give up anew: the record that told of it is gone.
        remember = known and all(each.cluster for each in promises) and not coordinator.last.unclean
        if not is_able or not remember or coordinator.is_set_back:
            return
        with_leases = self._randomness.random() < 0.5
        if self._randomness.random() < 0.4:
            self._note("set back: emptied")
            coordinator.empty(with_leases=with_leases)
        elif coordinator.records > 1:
            records = self._randomness.randrange(1, min(coordinator.records, 8))
            self._note(f"set back: {records}")
            coordinator.set_back(records, with_leases=with_leases)
        if self._randomness.random() < 0.5:
            coordinator.is_away = True
            self._heals(self._randomness.uniform(0.3, 3.0), coordinator.restart)

    def _brisk(self) -> None:
        self._cluster.coordinator.slowness = self._cluster.coordinator.stale_reads = 0.0

    def _command(self, node: "Node") -> None:
        if node.replica is None or node.is_paused:
            return
        command = self._randomness.choice((on.Transfer(), on.Drain()))
        if isinstance(command, on.Transfer) and node.replica.is_dispensable:
            self._note(f"repair: {node.name}")
            node.give_up()
            return
        self._note(f"command: {node.name} {type(command).__name__}")
        node.handle(command)
        if isinstance(command, on.Drain):
            node.drains = True
            self._cluster.scheduler.after(4.0, self._stop_drained, node, node.process)

    def _stop_drained(self, node: "Node", process: int) -> None:
        if node.replica is not None and node.process == process:
            node.crash(power=False, restart_after=0.5)

    def _recover(self, node: "Node") -> None:
        record = self._cluster.coordinator.last
        if self._cluster.coordinator.is_set_back:
            return
        if not self._cluster.has_operator or self._randomness.random() < 0.5:
            return
        if self._randomness.random() < 0.7:  # the one that has least
            node = min(self._cluster.nodes.values(), key=lambda each: (each.applied, each.name))
        if node.replica is None or node.is_paused or node.name == record.leader:
            return
        self._note(f"operator: {node.name} leads with a loss")
        node.handle(on.RecoverWithLoss(record.revision))

    _KINDS: tuple[Callable[["Faults", "Node"], None], ...] = (
        _kill,
        _power_cut,
        _pause,
        _cut,
        _flaky,
        _hang,
        _wipe,
        _coordinator,
        _command,
        _recover,
        _rot,
        _set_back,
    )
