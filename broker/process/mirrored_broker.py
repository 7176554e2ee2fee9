"""A broker of a cluster: it follows another node, leads when that is decided, and leaves."""

import asyncio

from routelog.broker.listeners.acceptor import Serve
from routelog.broker.node.configuration import BrokerConfig
from routelog.broker.passing.passing import Passing
from routelog.broker.process.broker import Broker, BrokerAddress
from routelog.broker.process.data_directory import DefinitionsFile, usable
from routelog.broker.process.front import Front
from routelog.broker.sessions.hosted_sessions import Leadership
from routelog.broker.sessions.leading_gate import LeadingGate
from routelog.mirror_cluster import ClusterMember
from routelog.vhosts import DeclaredPartitions, then

GONE = (
    "transient messages and queues that are not durable may be gone, "
    "what was not confirmed may be lost; connect again"
)
LEFT = "this node has no copy any more: connect to another one"


class MirroredBroker(Broker):
    """A node of a cluster; `follow` begins it, instead of `start`.

    Attributes:
        mirror: the cluster that it belongs to.
    """

    def __init__(
        self,
        config: BrokerConfig,
        front: Front,
        mirror: ClusterMember,
        definitions: DefinitionsFile | None = None,
    ) -> None:
        super().__init__(config, front, definitions, known_as=mirror.name)
        self.mirror = mirror
        self._passing = Passing(
            mirror, self._wait_seconds, lambda: "" if self._serves.is_set() else mirror.refusal
        )
        self._http_serve: Serve | None = None
        self._refusal = lambda: mirror.refusal
        self._is_suspended = False
        self._leading: LeadingGate | None = None
        self._leaving: set[asyncio.Task[None]] = set()

    async def follow(self) -> BrokerAddress | None:
        """Follow another node, and serve clients by way of it.

        Returns:
            None: nothing was begun, the process has to start again first.

        Raises:
            StartError: the data directory or the address cannot be used.
        """
        self._open()
        config, mirror, store = self._config, self.mirror, self.store
        store.logs.on_failure = self._log_failed
        with usable(config):
            records = DeclaredPartitions(store.logs.metadata)
            if not await mirror.start(store.logs, records, store.definitions):
                return None
        self._begin_front()
        self.sessions.follow(
            mirror, mirror.name, config.cluster_lease_seconds, config.cluster_confirm_seconds
        )
        mirror.on_left = self.lose_copy
        address = await self._listen()
        if mirror.certificates is not None:
            self.listeners.renewal.watch("clustering", mirror.certificates)
        if config.management:
            self.listeners.http.serve = self._passing.serve
            await self.listeners.http.open(address.host)
        return address

    async def lead(self, epoch: int) -> None:
        """Lead, as a node that has followed; everything that was committed is applied.

        Raises:
            StartError: what the data directory holds cannot be used.
        """
        config, store, front_node = self._config, self.store, self.sessions.front_node
        logs = store.logs
        assert front_node is not None
        await front_node.end()
        store.vhosts.await_consumers()
        with usable(config):
            await store.recover()
            front_node.route_here()
            await store.begin(epoch, self._definitions_file, goes_on=True)
        front_node.hand_over(logs.pressures.reasons)
        self._leading = LeadingGate(
            store.gate,
            lambda: self.mirror.leads_until,
            self._clock.monotonic,
            self.services.loop.call_later,
        )
        self._lead_nodes(epoch, self._leading)
        self._leading.begin(logs.pressures.reasons)
        self._watch_log(self._leading.pressed)
        if not self._is_suspended:
            self.go_on()

    def _lead_nodes(self, epoch: int, leading: LeadingGate) -> None:
        """Take the sessions of the other nodes of the cluster."""
        mirror, now = self.mirror, self._clock.monotonic
        leadership = Leadership(
            epoch,
            self._config.cluster_lease_seconds,
            mirror.tell_committed,
            age=lambda: max(0.0, now() + mirror.sure_seconds - mirror.leads_until),
        )
        hosted = self.sessions.lead(leadership)
        mirror.on_gone = hosted.barrier.gone
        hosted.barrier.on_away = self.store.vhosts.await_consumers
        hosted.barrier.on_all_back = self.store.vhosts.consumers_back

        def known() -> asyncio.Future[int] | None:
            sure, of_nodes = leading.sure(), hosted.barrier.known
            return of_nodes() if sure is None else then(sure, lambda _: of_nodes() or 0)

        writer = self.store.logs.metadata_writer
        writer.barrier, writer.known = hosted.barrier.gate, known

    def lose_copy(self) -> None:
        """Close all clients, and take none: this node has left, until it joins again."""
        if self.sessions.front_node is not None:
            self.sessions.front_node.let_go(LEFT)
        self._serves.clear()
        self._front.shut_down(LEFT)

    def suspend(self, reason: str) -> None:
        """Close all clients, and let others wait: another node leads soon, or this one goes on.

        Args:
            reason: in words, for clients.
        """
        self._is_suspended = True
        self.mirror.take_clients(None)
        self.mirror.take_sessions(None)
        self.store.vhosts.await_consumers()
        self.store.vhosts.keep_queues()
        if self.sessions.hosted is not None:
            self.sessions.hosted.close_all(reason)
        self._serves.clear()
        self.listeners.http.serve = self._passing.serve
        self._front.shut_down(f"{reason}: {GONE}")

    def go_on(self) -> None:
        """Take clients, as soon as everything is loaded: this node leads."""
        self._is_suspended = False
        if self._leading is None:  # not everything is loaded
            return
        hosted, http = self.sessions.hosted, self.listeners.http
        assert hosted is not None
        self._serves.set()
        http.serve = self._http_serve or http.serve
        self.mirror.take_clients(self.passed_door.take)
        hosted.barrier.expect(self.mirror.other_nodes(), self.store.logs.journal.end.position)
        self.mirror.take_sessions(hosted.take)
        # Who waited for a leader. Nobody waits for those who do not answer.
        leaving = self._passing.aclose("this node leads now: connect again")
        self._leaving.add(task := asyncio.create_task(leaving))
        task.add_done_callback(self._leaving.discard)

    def serve_http(self, serve: Serve) -> None:
        """See `Broker`."""
        self._http_serve = serve
        super().serve_http(serve)

    async def leave(self, reason: str) -> None:
        """Close listeners and clients. What is stored stays as a crash leaves it: the process ends now.

        Nothing is flushed: what a leader that was deposed has in memory may be no part of the log.
        """
        self.mirror.take_clients(None)
        if self.store.remote is not None:
            self.store.remote.stop()
        await self._close_doors()
        self.mirror.take_sessions(None)
        await self.sessions.aclose(reason)
        if self._leading is not None:
            self._leading.stop()
        await self.listeners.http.close()
        await self._passing.aclose(reason)
        await self._front.aclose(reason)

    def _log_failed(self, error: Exception) -> None:
        self.mirror.end(str(error))
