"""A simulated node that serves clients, by way of the leader or as the leader."""

import asyncio
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar, cast

from simulation.checker import Violation
from simulation.fronts.process import CONNECT_SECONDS, OUTBOX_BYTES, WINDOW_BYTES, NodeProcess
from simulation.fronts.wire import Wire
from simulation.node import Node

from routelog.mirror_cluster import LeadingNode
from routelog.mirror_cluster.replica import actions as act
from routelog.mirror_cluster.replica import events as on
from routelog.mirror_cluster.replica.chain import Chain

if TYPE_CHECKING:
    from simulation.fronts.cluster import FrontsCluster

# What one turn adds, and what cannot wait
UNCONFIRMED_SLACK_BYTES = 32 * 1024
UNSENT_SLACK_BYTES = 64 * 1024


class ProcessHost:
    """One process of a node, as its connections see it (`Host`)."""

    def __init__(self, node: "FrontsNode") -> None:
        self.name = node.name
        self._node = node
        self._process = node.process
        self.lost_power = False

    @property
    def is_there(self) -> bool:
        """See `Host`."""
        return self._node.host is self and self._node.broker is not None

    @property
    def says_so(self) -> bool:
        """See `Host`."""
        return not self.lost_power or self._node.broker is not None

    @property
    def is_paused(self) -> bool:
        """See `Host`."""
        return self._node.is_paused

    def enter(self, call: Callable[..., object], *arguments: Any) -> None:
        """See `Host`."""
        self._node.enter(self._process, self._call, call, *arguments)

    def _call(self, call: Callable[..., object], *arguments: Any) -> None:
        if self._node.host is self:
            call(*arguments)


class FrontsNode(Node):
    """See the module.

    Attributes:
        known_alive: the nodes that have a lease, as far as this one has heard.
        wires: its connections.
    """

    broker: NodeProcess | None
    cluster: "FrontsCluster"

    def __init__(self, cluster: "FrontsCluster", name: str, randomness: Random) -> None:
        super().__init__(cluster, name, randomness)
        self.known_alive: frozenset[str] = frozenset()
        self.wires: list[Wire] = []
        self.host = ProcessHost(self)
        self._wakes_at = float("inf")
        self._is_turning = False
        self._epoch = 0

    @property
    def has_broker(self) -> bool:
        """See `Node`."""
        return True

    @property
    def leads(self) -> bool:
        """Whether it serves clients as the leader."""
        return self.broker is not None and self.broker.process.leads

    @property
    def session(self) -> object:
        """What joins its clients to the leader; None: nothing does now."""
        if self.broker is None:
            return None
        if self.leads:
            return self.broker
        front = self.broker.process.parts()["front"]
        return front.session if front is not None and front.session.is_open else None

    @property
    def epoch(self) -> int:
        """Of the leader that it last had a session with, or as which it leads."""
        if self.broker is not None:
            front = self.broker.process.parts()["front"]
            epoch = self.broker.epoch if front is None else front.session.epoch
            self._epoch = max(self._epoch, epoch)
        return self._epoch

    def lags(self, is_late: bool) -> None:
        """Whether it carries out nothing of what is committed for now."""
        if self.broker is not None:
            self.broker.storage._has_room = lambda: not is_late
            if not is_late:
                self.enter(self.process, self.broker.storage.apply_more)

    # -- the life of a process

    def _open_broker(self, chain: Chain) -> None:
        self.known_alive = frozenset()
        self._wakes_at = float("inf")
        self._end_wires()  # a copy may have taken the place of its data
        self.broker, self.host = None, ProcessHost(self)
        broker = self.broker = NodeProcess(self, self._data)
        broker.agree(chain, self._blocks, self.applied)
        self.applied = broker.applied
        self._plan()

    def crash(self, power: bool, restart_after: float | None) -> None:
        """See `Node`."""
        self.host.lost_power = power
        super().crash(power, restart_after)

    def _end(self, restart_after: float | None) -> None:
        super()._end(restart_after)
        self._end_wires()

    def _end_wires(self) -> None:
        wires, self.wires = self.wires, []
        for wire in wires:
            wire.process_ended(self.host)

    def resume(self) -> None:
        """SIGCONT: what its clients have sent may be read before anything of other nodes, or after."""
        if not self.is_paused:
            return
        if self._randomness.random() < 0.8:
            inbox, self._inbox = self._inbox, []
            self.is_paused = False
            for wire in self.wires:
                for way in wire.ways:
                    if way.target.host is self.host:
                        way.carry_now()
            if self.broker is None:
                return
            self._inbox = inbox + self._inbox
        super().resume()

    def _check_limits(self) -> None:
        unsent = 0
        for wire in self.wires:
            if wire.is_session:
                unsent = max(unsent, wire.unsent_bytes(self.host))
        front = self.broker.process.sessions.front_node if self.broker is not None else None
        unconfirmed = front.session.unconfirmed_bytes if front is not None else 0
        if (
            unconfirmed > WINDOW_BYTES + UNCONFIRMED_SLACK_BYTES
            or unsent > OUTBOX_BYTES + UNSENT_SLACK_BYTES
        ):
            text = f"{self.name} has {unconfirmed} bytes unconfirmed, {unsent} bytes unsent"
            raise Violation(text)

    # -- its loop

    def enter(self, process: int, call: Callable[..., object], *arguments: Any) -> None:
        """Call something in the loop of a process, now or when it goes on."""
        self._in_turn(process, self._enter, call, *arguments)

    def _enter(self, call: Callable[..., object], *arguments: Any) -> None:
        if self.broker is None:
            return  # it ended while it went on
        self.broker.loop.call_soon(call, *arguments)
        self._work()

    def soon(self, call: Callable[..., None], *arguments: Any) -> None:
        """Call something that is not the loop's business, when that has come to rest."""
        self.cluster.scheduler.after(0.0, self._in_turn, self.process, call, *arguments)

    def _work(self) -> None:
        if self.broker is None or self._is_turning:
            return
        if self.broker.made or not self.broker.loop.is_idle:
            self._is_turning = True
            try:
                self.broker.settle()
                self._hand_over()
            finally:
                self._is_turning = False
            self._check_limits()
        self._plan()

    def _plan(self) -> None:
        broker = self.broker
        when = None if broker is None else broker.loop.next_timer()
        if when is not None and when < self._wakes_at:
            self._wakes_at = when
            delay = max(0.0, when - self.cluster.scheduler.now)
            self.cluster.scheduler.after(delay, self._in_turn, self.process, self._wake, when)

    def _wake(self, when: float) -> None:
        if when == self._wakes_at:  # else another one has come before it
            self._wakes_at = float("inf")
            self._work()

    def handle(self, event: on.Event) -> None:
        """See `Node`."""
        if isinstance(event, on.NodesAlive):
            self.known_alive = frozenset(event.processes)
        if isinstance(event, on.NodeGone) and self.broker is not None:
            self.broker.loop.call_soon(self.broker.member.on_gone, event.node)
        super().handle(event)
        broker = self.broker
        if broker is not None and broker.member.known_leader() != broker.member.leader:
            broker.loop.call_soon(broker.member.look)
            self.soon(self._work)

    def _serve(self, action: act.Serve) -> None:
        self.cluster.checker.served(self, action.epoch)
        assert self.broker is not None
        self.broker.lead(action.epoch)
        self.soon(self._work)

    def _stop_serving(self, action: act.StopServing) -> None:
        assert self.broker is not None
        self.broker.loop.call_soon(self.broker.process.suspend, action.reason)
        self.soon(self._work)

    # -- connections

    async def reach(self, leader: LeadingNode) -> Wire:
        """Connect with another node for a session."""
        cluster = self.cluster
        other = cluster.nodes[leader.node]
        answered = asyncio.get_running_loop().create_future()
        host, has_arrived = self.host, False

        def resolve(wire: Wire | None) -> None:
            if not answered.done():
                answered.set_result(wire)

        def arrive() -> None:
            nonlocal has_arrived
            if has_arrived or answered.done():  # TCP makes one, for somebody who waits for it
                return
            has_arrived = True
            process = other.process if other.broker is not None else None
            take = None if other.broker is None else other.broker.member.take_front
            if process != leader.process or take is None:
                reply(None)
                return
            wire = cluster.wire(host, other.host)
            wire.near.reads = wire.far.reads = False
            wire.is_session = True
            self.wires.append(wire)
            other.wires.append(wire)
            other.broker.loop.call_soon(take, self.name, wire.far, b"")
            other._work()
            reply(wire)

        def reply(wire: Wire | None) -> None:
            if wire is None or wire.near.host.is_there:
                cluster.network.send(other.name, self.name, host.enter, resolve, wire)

        def sent() -> None:
            if other.broker is None:
                reply(None)
            else:
                other._in_turn(other.process, arrive)

        cluster.network.send(self.name, other.name, sent)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                wire = await answered
        except TimeoutError:
            raise OSError("no answer") from None
        if wire is None:
            raise ConnectionRefusedError
        return cast(Wire, wire)

    def connect(self, wire: Wire) -> bool:
        """Take a client; False: none is taken here."""
        if self.broker is None or self.is_paused or not self.broker.process.takes_clients:
            return False
        self.wires.append(wire)
        self.soon(self._enter, self.broker.process.take, wire)
        return True

    _doers: ClassVar[dict[Any, Any]] = {
        **Node._doers,
        act.Serve: _serve,
        act.StopServing: _stop_serving,
    }
