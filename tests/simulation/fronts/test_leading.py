"""A leader goes on that stood still, and does not know for a moment who leads, or that was to hand over."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from functools import partial
from math import inf
from typing import Any
from unittest.mock import patch

import pytest
from pamqp import commands
from simulation.fronts.client import Client, Gone
from simulation.fronts.cluster import FrontsCluster, simulated
from simulation.fronts.node import FrontsNode
from simulation.fronts.process import Member

from routelog.vhosts import Queue

SEED = 1  # of three nodes
WAIT_SECONDS = 30.0  # by the simulation's clock
REMOVALS: tuple[tuple[Any, type[Any]], ...] = (
    (commands.Queue.Delete(queue="s0"), commands.Queue.DeleteOk),
    (commands.Exchange.Delete(exchange="lives"), commands.Exchange.DeleteOk),
)
# What these make is there already, and nothing of it is behind the removals.
DECLARATIONS: tuple[tuple[Any, type[Any]], ...] = (
    (commands.Queue.Declare(queue="s0", durable=True), commands.Queue.DeclareOk),
    (commands.Queue.Declare(queue="s0", passive=True), commands.Queue.DeclareOk),
    (commands.Queue.Bind(queue="s0", exchange="fan", routing_key=""), commands.Queue.BindOk),
    (
        commands.Exchange.Declare(exchange="lives", exchange_type="direct", durable=True),
        commands.Exchange.DeclareOk,
    ),
    (commands.Exchange.Declare(exchange="lives", passive=True), commands.Exchange.DeclareOk),
)
UNCHANGING = pytest.mark.parametrize(("method", "answer"), DECLARATIONS)


class StillLeader:
    """A cluster with all that its clients need; its leader stands still.

    Attributes:
        client: of the leader.
        other: a client of another node.
    """

    def __init__(self, cluster: FrontsCluster) -> None:
        self._cluster = cluster
        for node in cluster.nodes.values():
            node.start()
        self._until(cluster._is_well)
        cluster.work.machine.enter(cluster.work.set_up)
        self._until(lambda: None if cluster.work.is_set_up else "nothing is set up")
        nodes = sorted(cluster.nodes.values(), key=lambda node: not node.leads)
        self._leader = nodes[0]
        self.client, self.other = self._client(nodes[0]), self._client(nodes[1])
        self._leader.pause()

    def _until(self, missing: Callable[[], str | None]) -> None:
        self._cluster._wait(WAIT_SECONDS, "missing", missing)

    def _client(self, node: FrontsNode) -> Client:
        connected: Client = self.told(self.begun(lambda: self._cluster.work.connect(node))).client
        return connected

    def begun(self, work: Callable[[], Awaitable[Any]]) -> asyncio.Future[Any]:
        """What a client has begun."""
        begun: list[asyncio.Future[Any]] = []
        machine = self._cluster.work.machine
        machine.enter(lambda: begun.append(asyncio.ensure_future(work())))
        return begun[0]

    def told(self, begun: asyncio.Future[Any]) -> Any:
        """What became of it."""
        self._until(lambda: None if begun.done() else "an answer")
        return begun.result()

    def go_on(self) -> None:
        """The leader reads what its clients have sent, and only then what others have."""
        self.pass_a_moment()
        with patch.object(self._leader._randomness, "random", return_value=0.0):
            self._leader.resume()
        self.pass_a_moment()

    def give_up_a_hand_over(self) -> None:
        """It closes its clients for another leader, and leads on itself."""
        assert self._leader.broker is not None
        process = self._leader.broker.process
        self._leader.host.enter(process.suspend, "another node is to lead")
        self._until(lambda: None if self.client.is_gone else "the end of its client")
        self._leader.host.enter(process.go_on)

    @property
    def queues(self) -> Mapping[str, Queue]:
        """Those of the leader."""
        assert self._leader.broker is not None
        return self._leader.broker.process.store.vhosts.get("/").queues

    def until_gone(self, queue: str) -> None:
        """Let time pass until it has no queue of the name."""
        self._until(lambda: queue if queue in self.queues else None)

    def cut_sessions(self) -> None:
        """The sessions of all fronts end, and the next ones begin."""
        assert self._leader.broker is not None
        hosted = self._leader.broker.process.sessions.hosted
        assert hosted is not None
        ended = list(hosted._sockets.values())

        def end() -> None:
            for socket in ended:
                socket.close("the test wants another one")

        def missing() -> str | None:
            is_back = len(hosted._sockets) == len(ended) and not hosted.barrier.are_away
            return None if is_back else "sessions"

        self._leader.host.enter(end)
        self._until(missing)

    def kill(self, nodes: Iterable[FrontsNode]) -> None:
        """The processes of nodes end."""
        for node in nodes:
            node.stays_down = True
            node.crash(power=False, restart_after=None)

    @property
    def others(self) -> list[FrontsNode]:
        """The other nodes."""
        return [node for node in self._cluster.nodes.values() if node is not self._leader]

    def look(self) -> None:
        """The leader sees whether another node may lead."""
        assert self._leader.broker is not None
        self._leader.host.enter(self._leader.broker.process.store.gate.lapse)

    def pass_a_moment(self) -> None:
        """What has been sent comes."""
        self._cluster.scheduler.run_until(self._cluster.scheduler.now + 0.01)


@pytest.fixture
def leader() -> Iterator[StillLeader]:
    with simulated(SEED) as directory:
        cluster = FrontsCluster(SEED, directory)
        yield StillLeader(cluster)
        for node in cluster.nodes.values():
            node.stays_down = True
            node.crash(power=False, restart_after=None)


@UNCHANGING
def test_nobody_is_told_of_what_the_next_leader_has_removed(
    leader: StillLeader, method: Any, answer: type[Any]
) -> None:
    for removal in REMOVALS:
        leader.told(leader.begun(partial(leader.other.call, *removal)))
    begun = leader.begun(partial(leader.client.call, method, answer))
    leader.go_on()
    with pytest.raises(Gone):
        leader.told(begun)


@UNCHANGING
def test_who_turns_out_to_lead_answers(leader: StillLeader, method: Any, answer: type[Any]) -> None:
    leader.go_on()
    with patch.object(Member, "leads_until", -inf):
        leader.look()
        begun = leader.begun(partial(leader.client.call, method, answer))
        leader.pass_a_moment()
        assert not begun.done()
    leader.told(begun)


def test_a_transient_queue_that_all_have_left_ends_when_a_hand_over_is_given_up(
    leader: StillLeader,
) -> None:
    leader.go_on()
    declare = commands.Queue.Declare(queue="q", auto_delete=True)
    consume = commands.Basic.Consume(queue="q", no_ack=True)
    for method, answer in (
        (declare, commands.Queue.DeclareOk),
        (consume, commands.Basic.ConsumeOk),
    ):
        leader.told(leader.begun(partial(leader.client.call, method, answer)))
    leader.give_up_a_hand_over()
    leader.until_gone("q")


@pytest.mark.parametrize("is_killed", [False, True])
def test_an_auto_delete_queue_goes_with_its_consumers_and_not_with_their_session(
    leader: StillLeader, is_killed: bool
) -> None:
    leader.go_on()
    declare = commands.Queue.Declare(queue="q", durable=True, auto_delete=True)
    consume = commands.Basic.Consume(queue="q", no_ack=True)
    for method, answer in (
        (declare, commands.Queue.DeclareOk),
        (consume, commands.Basic.ConsumeOk),
    ):
        leader.told(leader.begun(partial(leader.other.call, method, answer)))
    leader.cut_sessions()
    assert leader.queues["q"].consumer_count == 1
    assert not leader.other.is_gone
    if is_killed:
        leader.kill(leader.others)
    else:
        leader.told(leader.begun(leader.other.close))
    leader.until_gone("q")
