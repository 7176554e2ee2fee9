"""What goes wrong with sessions, beside what goes wrong with nodes."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from simulation.coordinator import ETCD, LEASE_SECONDS
from simulation.faults import Faults

from routelog.mirror_cluster.replica import events as on

if TYPE_CHECKING:
    from simulation.fronts.cluster import FrontsCluster
    from simulation.fronts.node import FrontsNode
    from simulation.fronts.wire import End, Wire


class FrontFaults(Faults):
    """See the module."""

    _cluster: Any
    _has_begun = False
    _strikes_from = 0.0  # until then a fault that needs clients that go on stays alone

    def begin(self) -> None:
        """See `Faults`."""
        self._has_begun = True
        super().begin()

    def tempt(self, node: Any, action: Any) -> None:
        """See `Faults`."""
        if self._has_begun:
            super().tempt(node, action)

    def _strike(self) -> None:
        if self._cluster.scheduler.now < self._strikes_from:
            self.begin()
        else:
            super()._strike()

    def end(self) -> None:
        """See `Faults`."""
        cluster = cast("FrontsCluster", self._cluster)
        for wire in cluster.wires:
            self._go_on(wire)
        for node in cluster.nodes.values():
            node.lags(False)
        # Late news of the coordinator, or requests of ended processes, depose a leader that is well.
        cluster.network.forget()
        cluster.coordinator.forget_requests()
        super().end()

    def _session(self, node: "FrontsNode") -> "Wire | None":
        sessions = [each for each in node.wires if each.is_session and not each.is_over]
        return self._randomness.choice(sessions) if sessions else None

    def _break(self, node: "FrontsNode") -> None:
        wire = self._session(node)
        if wire is None:
            return
        ends = (wire.near, wire.far)
        kind = self._randomness.randrange(3)
        self._note(f"break: a session of {node.name}: {('both ends', 'near', 'far')[kind]}")
        for end in ends if kind == 0 else (ends[kind - 1],):
            self._lose(end)
            if kind:  # and nobody tells the other end
                for way in wire.ways:
                    way.stalled = True

    def _stall(self, node: "FrontsNode") -> None:
        wire = self._session(node)
        if wire is None:
            return
        ways = [*wire.ways, None]
        one = self._randomness.choice(ways)
        self._note(f"stall: a session of {node.name}")
        for way in wire.ways:
            if one is None or way is one:
                way.stalled = True
        self._heals(self._randomness.uniform(0.1, 4.0), self._go_on, wire)

    def _slow(self, node: "FrontsNode") -> None:
        wire = self._session(node)
        if wire is None:
            return
        self._note(f"slow: a session of {node.name}")
        for way in wire.ways:
            way.slowness = self._randomness.choice((0.0, 0.02, 0.3))
        self._heals(self._randomness.uniform(0.3, 4.0), self._go_on, wire)

    def _go_on(self, wire: "Wire") -> None:
        for way in wire.ways:
            way.stalled, way.slowness = False, 0.0
            way.go_on()

    def _quiet_end(self, node: "FrontsNode") -> None:
        """Its leader has lost the session of a node that knows nothing of that, nor of definitions."""
        wire = self._session(node)
        if wire is None or wire.near.host is not node.host:
            return
        self._note(f"quiet end: {node.name}")
        self._late(node)
        for way in wire.ways:
            way.stalled = True
        self._heals(self._randomness.uniform(0.0, 0.3), self._lose, wire.far)

    def _lose(self, end: "End") -> None:
        if end.host.is_there and not end.is_over:
            end.host.enter(end.lose)

    def _quiet_change(self, node: "FrontsNode") -> None:
        """Another one leads, without a word of a node that has no lease any more, and knows nothing of that."""
        leader = self._cluster.nodes.get(self._cluster.coordinator.last.leader)
        if leader is None or node is leader or node.is_paused:
            return
        self._note(f"quiet change: {node.name}")
        cuts = {(node.name, ETCD), (ETCD, node.name)}
        self._cluster.network.cuts |= cuts
        self._heals(self._randomness.uniform(4.0, 6.0), self._mend, cuts)
        self._heals(LEASE_SECONDS + 0.5, self._change_quietly, node, leader)

    def _change_quietly(self, node: "FrontsNode", leader: "FrontsNode") -> None:
        self._late(node)
        for wire in node.wires:
            if wire.is_session and wire.near.host is node.host:
                for way in wire.ways:
                    way.stalled = True
        if not leader.is_paused:
            leader.handle(on.Transfer())

    def _late(self, node: "FrontsNode") -> None:
        self._note(f"late: definitions of {node.name}")
        node.lags(True)
        self._heals(self._randomness.uniform(0.1, 4.0), node.lags, False)

    def _lone(self, node: "FrontsNode") -> None:
        """It does not reach its leader for longer than a lease, or stands still for so long."""
        nodes = self._cluster.nodes
        leader = nodes.get(self._cluster.coordinator.last.leader)
        if leader is None or leader.is_paused:
            return
        node = self._randomness.choice([each for each in nodes.values() if each is not leader])
        self._note(f"lone: {node.name}")
        seconds = LEASE_SECONDS + self._randomness.uniform(0.3, 2.0)
        self._strikes_from = self._cluster.scheduler.now + seconds
        if self._randomness.random() < 0.7:
            node.pause()
            self._heals(seconds, node.resume)
        else:
            cuts = {(node.name, leader.name), (leader.name, node.name)}
            self._cluster.network.cuts |= cuts
            self._heals(seconds, self._mend, cuts)

    def _asked_late(self, node: "FrontsNode") -> None:
        """What it is asked comes late, and it knows that later still; then it does not hear of its end."""
        wire = self._session(node)
        if wire is None or wire.near.host is not node.host:
            return
        self._note(f"asked late: {node.name}")
        seconds = LEASE_SECONDS + self._randomness.uniform(0.5, 2.0)
        self._strikes_from = self._cluster.scheduler.now + seconds
        node.lags(True)
        self._heals(seconds, node.lags, False)
        self._hold_back(wire, self._randomness.uniform(0.5, 1.5))
        self._heals(LEASE_SECONDS, self._hold_back, wire, 0.3)

    def _hold_back(self, wire: "Wire", seconds: float) -> None:
        wire.back.stalled = True
        self._heals(seconds, self._go_on, wire)

    def _unstored(self, node: "FrontsNode") -> None:
        """Its sessions go on, and no other node stores what it has until it is killed."""
        self._note(f"unstored: {node.name}")
        lost = {(node.name, other) for other in self._cluster.nodes}
        self._cluster.network.lost |= lost
        seconds = self._randomness.uniform(0.02, 0.5)
        self._heals(seconds, self._store_again, lost)
        if self._randomness.random() < 0.7:
            self._heals(seconds, self._kill, node)

    def _store_again(self, lost: set[tuple[str, str]]) -> None:
        self._cluster.network.lost -= lost

    _KINDS = cast(
        "tuple[Callable[[Faults, Any], None], ...]",
        (
            Faults._kill,
            Faults._kill,
            Faults._power_cut,
            Faults._pause,
            Faults._pause,
            Faults._cut,
            Faults._cut,
            Faults._flaky,
            Faults._hang,
            Faults._coordinator,
            Faults._command,
            Faults._command,
            _break,
            _break,
            _stall,
            _slow,
            _late,
            _quiet_end,
            _quiet_change,
            _lone,
            _asked_late,
            _unstored,
        ),
    )
