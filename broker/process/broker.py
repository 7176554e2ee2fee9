"""A running broker on its own, and the parts of every broker: their start and stop in order.

`MirroredBroker` is a node of a cluster; `ProcessLeader` and `ProcessFront` are processes of one node.
"""

import asyncio
import logging
import socket
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from routelog.broker.listeners.acceptor import Serve, ServedSocket
from routelog.broker.listeners.shared_page import ProcessState
from routelog.broker.loop.loop_monitor import LoopMonitor
from routelog.broker.node.configuration import BrokerConfig, node_name
from routelog.broker.node.delivery_samples import DeliverySamples
from routelog.broker.node.direct_reply import DirectReplies
from routelog.broker.passing.passed_door import PassedDoor
from routelog.broker.process.data_directory import DefinitionsFile, StartError, usable
from routelog.broker.process.front import Front
from routelog.broker.process.log_exchange import LogExchange
from routelog.broker.process.logs import RecentLog
from routelog.broker.process.memory_allocator import MemoryTrim
from routelog.broker.process.node_listeners import NodeListeners
from routelog.broker.process.node_sessions import NodeSessions
from routelog.broker.process.node_store import NodeStore
from routelog.broker.process.processes import END_SECONDS_MAX, ProcessPlace
from routelog.broker.process.services import NodeServices
from routelog.broker.sockets.accepted_sockets import AcceptedSocket
from routelog.broker.sockets.proxy_header import Endpoint
from routelog.broker.waiting.confirm_deadline import ConfirmDeadline
from routelog.broker.waiting.consumer_gates import ConsumerGates
from routelog.broker.waiting.gate import UNLED
from routelog.broker.waiting.intake_budget import IntakeBudget, IntakeLimits
from routelog.broker.waiting.publish_rates import PublishRates
from routelog.exchanges import InvalidName
from routelog.log_backend import SystemClock, keep_private
from routelog.mirror_cluster import claim_epoch
from routelog.vhosts import Admission, InvalidDefinition, SharedCounts

CHANGE_SECONDS = 3.0  # what a change of leader may take beside a lease
AWAY = "the process that has the data is away: connect again"
STOPPED = "broker forced connection closure with reason 'shutdown'"


CloseGate = Callable[[frozenset[str]], None]


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """The address where a broker listens, and its data directory."""

    host: str
    port: int
    data_dir: Path


class Broker:
    """A broker on its own.

    Attributes:
        store, services, sessions: from the start on: what it keeps, what its doors share, and its sessions with
            others.
        listeners: as soon as it listens.
        loop_monitor: likewise: how long the event loop was held.
        passed_door: for clients of HTTP that other nodes pass on.
        last_doors: close when no clients are left, while what they were told may still be sent to others.
        recent_log: the last lines of the process's log.

    Args:
        front: what speaks with its clients.
        definitions: what to import when it begins to write; None: the default user and vhost are made.
        place: which of several processes of its node it is; None: it is the node.
        known_as: how other nodes call it.
    """

    store: NodeStore
    services: NodeServices
    sessions: NodeSessions
    listeners: NodeListeners

    def __init__(
        self,
        config: BrokerConfig,
        front: Front,
        definitions: DefinitionsFile | None = None,
        place: ProcessPlace | None = None,
        known_as: str = "",
    ) -> None:
        self._config = config
        self._front = front
        self._name = node_name(config.node_name, socket.gethostname())
        self._definitions_file = definitions
        self._place = place
        self._wait_seconds = config.cluster_lease_seconds + CHANGE_SECONDS
        self._serves = asyncio.Event()  # clients of AMQP; who comes before waits
        self._clock = SystemClock()
        self._replies = DirectReplies(known_as if place is None else place.name(self._name))
        self._refusal: Callable[[], str] = lambda: AWAY
        self._umask = 0  # of who started the process
        self.passed_door = PassedDoor()
        self.last_doors = AsyncExitStack()
        self.recent_log = RecentLog()

    async def start(self) -> BrokerAddress:
        """Recover, then listen.

        Raises:
            StartError: the data directory or the address cannot be used.
        """
        await self._recover()
        return await self._take_clients()

    async def _recover(self) -> None:
        self._open()
        store, logs = self.store, self.store.logs
        with usable(self._config):
            logs.recover_metadata()
            await store.definitions.load()
            try:
                await store.recover()
                logs.pressures.on_change = store.gate.close_for
                epoch = claim_epoch(logs.metadata, logs.journal.recovered_epoch)
                goes_on = self._place is not None and self._place.page.has_started
                await store.begin(epoch, self._definitions_file, goes_on=goes_on)
            except (StartError, InvalidDefinition, InvalidName):
                await self._close_stores()
                raise
        self._begin_front()
        logs.on_failure = self._log_failed
        self._watch_log(store.gate.close_for)

    async def _take_clients(self) -> BrokerAddress:
        self._serves.set()
        try:
            return await self._listen()
        except StartError:
            await self._close_stores()
            raise

    # -- parts of every start

    def _open(self) -> None:
        """Take the data directory, if it is this process's, and make what definitions are read into."""
        logging.getLogger().addHandler(self.recent_log)
        self._umask = keep_private()
        self.store = NodeStore(self._config, self._clock, self._front, self._place)

    def _begin_front(self) -> None:
        """Clients are taken from here on: here, or by way of the leader."""
        config, clock, store = self._config, self._clock, self.store
        vhosts, users, counts = store.vhosts, store.users, SharedCounts()
        loop = asyncio.get_running_loop()
        limits = IntakeLimits(
            config.intake_connection_bytes_max,
            config.intake_user_bytes_max,
            config.intake_bytes_max,
        )
        self.services = services = NodeServices(
            config=config,
            loop=loop,
            clock=clock,
            cork=store.cork,
            scheduler=store.scheduler,
            vhosts=vhosts,
            users=users,
            passwords=store.passwords,
            parameters=store.parameters,
            admission=Admission(vhosts, users, counts),
            progress=store.logs.progress,
            in_time=lambda done: self.sessions.in_time(done),
            gate=store.gate,
            intake=IntakeBudget(loop, limits, store.logs.memory.hold),
            consumer_gates=ConsumerGates(loop, store.cork),
            publish_rates=PublishRates(users, vhosts, counts, clock, loop.call_later),
            deliveries=DeliverySamples(clock, in_cluster=bool(config.cluster_nodes)),
            node_name=self._name,
            replies=self._replies,
        )
        self.sessions = NodeSessions(services, counts, self._front, self._serves)
        self._front.begin(services)
        self._log_exchange = LogExchange(vhosts, loop, services.node_name)
        logging.getLogger().addHandler(self._log_exchange)
        users.tell, front = vhosts.events.tell, self._front
        users.on_deleted = lambda name: front.close_user(name, f"user '{name}' was deleted")
        vhosts.on_deleted = lambda name: front.close_vhost(name, f"vhost '{name}' is deleted")

    def _watch_log(self, close_gate: CloseGate) -> None:
        """The journal is this node's to write: clients hear how it fares.

        Args:
            close_gate: has publishers wait, for these reasons.
        """
        logs = self.store.logs
        logs.progress.around = self.store.cork.run
        logs.pressures.on_change = partial(self._pressed, close_gate)
        if logs.journal.is_replicated:
            self._begin_deadline()

    def _begin_deadline(self) -> None:
        logs, cork, loop = self.store.logs, self.store.cork, self.services.loop
        self.sessions.deadline = ConfirmDeadline(
            logs.progress,
            lambda: logs.journal.end.position,
            self._config.cluster_confirm_seconds,
            lambda seconds, look: loop.call_later(seconds, cork.run, look),
        )
        self.sessions.deadline.start()

    async def _listen(self) -> BrokerAddress:
        """Accept connections, and begin to watch the process."""
        loop, logs = asyncio.get_running_loop(), self.store.logs
        self.listeners = NodeListeners(
            self.services, self._serve, self._until_served, self._umask, self._place
        )
        host, port = await self.listeners.open()
        self.loop_monitor = LoopMonitor(loop, self._clock)
        self.loop_monitor.start()
        self._trim = MemoryTrim(loop, lambda: logs.bytes_in_memory)
        self._trim.start()
        return BrokerAddress(host, port, self._config.data_dir)

    # -- its clients

    @property
    def takes_clients(self) -> bool:
        """Whether clients of AMQP are served, by this node's own queues or by way of another one."""
        return self._serves.is_set()

    @property
    def processes(self) -> list[ProcessState]:
        """The processes of the node, if it has several."""
        return [] if self._place is None else self._place.page.states()

    def serve_http(self, serve: Serve) -> None:
        """From now on the HTTP API is served so."""
        self.listeners.http.serve = serve
        self.passed_door.open(self.listeners.http_sockets, serve)

    async def _until_served(self) -> None:
        if not self._serves.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(self._wait_seconds):
                    await self._serves.wait()

    def _serve(self, accepted: AcceptedSocket, proxied: Endpoint | None) -> ServedSocket:
        refusal = "" if self._serves.is_set() else self._refusal()
        return self._front.serve(accepted, proxied, refusal)

    # -- its log

    def _pressed(self, close_gate: CloseGate, reasons: frozenset[str]) -> None:
        events, gate = self.store.vhosts.events, self.store.gate
        before = frozenset(gate.reasons) - {UNLED}
        close_gate(reasons)
        if self.sessions.hosted is not None:
            self.sessions.hosted.pressed(reasons)
        for what, changed in (("alarm.set", reasons - before), ("alarm.cleared", before - reasons)):
            for each in sorted(changed):
                events.tell(what, resource=each, node=self.services.node_name)

    def _log_failed(self, error: Exception) -> None:
        self.store.logs.progress.fail()
        self.store.vhosts.events.tell("alarm.set", resource="log", node=self.services.node_name)

    # -- its end

    async def stop(self) -> None:
        """Accept nobody, close connections with 320, write what is needed, let go of the files."""
        await self._close_doors()
        logging.getLogger().removeHandler(self._log_exchange)
        await self._front.aclose(STOPPED)
        if self.sessions.hosted is not None:
            await self.sessions.hosted.until_ended(END_SECONDS_MAX)  # the other processes end, too
        await self.sessions.aclose(STOPPED)
        self.services.scheduler.finish()
        await self.last_doors.aclose()
        await self._close_stores()
        logging.getLogger().removeHandler(self.recent_log)

    async def _close_doors(self) -> None:
        await self.listeners.close()
        self.sessions.stop_timers()
        self.loop_monitor.stop()
        self._trim.stop()
        self.store.vhosts.keep_queues()

    async def _close_stores(self) -> None:
        await self.store.aclose()
        await self._front.finish()
