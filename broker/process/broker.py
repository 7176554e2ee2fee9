"""A running broker: log store, vhosts, users, listener, and their start and stop in order."""

import asyncio
import logging
import signal
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from routelog.broker.identity.default_passwords import warn_of_default_passwords
from routelog.broker.listeners.accept_share import AcceptShare
from routelog.broker.listeners.acceptor import Serve, ServedSocket
from routelog.broker.listeners.certificate_renewal import CertificateRenewal
from routelog.broker.listeners.http_listeners import HttpListeners, MetricsListener
from routelog.broker.listeners.listeners import Listeners
from routelog.broker.listeners.listening_sockets import CannotListen
from routelog.broker.listeners.shared_page import ProcessState
from routelog.broker.loop.cork import Cork
from routelog.broker.loop.loop_monitor import LoopMonitor
from routelog.broker.node.configuration import BrokerConfig, node_name
from routelog.broker.node.delivery_samples import DeliverySamples
from routelog.broker.node.direct_reply import DirectReplies
from routelog.broker.passing.passed_door import PassedDoor
from routelog.broker.passing.passing import Passing
from routelog.broker.process.data_directory import (
    START_FAULTS,
    StartError,
    bad_definitions,
    in_words,
    open_logs,
)
from routelog.broker.process.event_log import EventLog
from routelog.broker.process.front import Front
from routelog.broker.process.log_exchange import LogExchange
from routelog.broker.process.logs import RecentLog
from routelog.broker.process.memory_allocator import MemoryTrim
from routelog.broker.process.open_files import open_files_limit, socket_limits
from routelog.broker.process.process_share import definitions_bytes
from routelog.broker.process.processes import END_SECONDS_MAX, LEADER, ProcessPlace
from routelog.broker.process.services import NodeServices
from routelog.broker.sessions.definition_feed import DefinitionFeed, FedDefinitions
from routelog.broker.sessions.front_node import ClusterOfFront, FrontHost, FrontNode
from routelog.broker.sessions.hosted_sessions import HostedSessions
from routelog.broker.sessions.leading_gate import LeadingGate
from routelog.broker.sessions.process_door import LeadingProcess, ProcessDoor, door_path
from routelog.broker.sessions.session_seeker import Write
from routelog.broker.sockets.accepted_sockets import AcceptedSocket, AcceptedSockets
from routelog.broker.sockets.proxy_header import Endpoint
from routelog.broker.sockets.stalled_sockets import StalledSockets
from routelog.broker.waiting.confirm_deadline import ConfirmDeadline
from routelog.broker.waiting.consumer_gates import ConsumerGates
from routelog.broker.waiting.gate import UNLED, Gate
from routelog.broker.waiting.intake_budget import IntakeBudget, IntakeLimits
from routelog.broker.waiting.publish_rates import PublishRates
from routelog.exchanges import InvalidName
from routelog.log_backend import (
    Backups,
    BadBucket,
    DirectoryLocked,
    EpochBeginning,
    LogStore,
    NoLogStore,
    RemoteStorage,
    SystemClock,
    SystemDisk,
    check_outside,
    keep_private,
    narrow,
    open_bucket,
    random_below,
    random_key,
    scheduler_of,
    unawaited,
    without_secrets,
)
from routelog.mirror_cluster import ClusterMember, claim_epoch
from routelog.vhosts import (
    TELL_SECONDS,
    Admission,
    AnswerPieces,
    DeclaredPartitions,
    Definitions,
    DefinitionsImport,
    GlobalParameters,
    GroupExpiry,
    HostedSession,
    InvalidDefinition,
    NodeAnswer,
    NodeDefinitions,
    PasswordVerifier,
    SessionHost,
    SharedCounts,
    TellEvent,
    UserDirectory,
    VhostDirectory,
    VirtualHost,
    durability_level,
    unanswered,
)

log = logging.getLogger(__name__)

ENTRY_CHANGES = 1_000  # of one entry of the journal: some 100 KB

# Of several processes: one that has ended is noticed at once, so this is for one that stands still.
PROCESS_LEASE_SECONDS = 5.0
PROCESS_CONFIRM_SECONDS = 3_600.0  # a node on its own waits for its disk, too
CHANGE_SECONDS = 3.0  # what a change of leader may take beside a lease
AWAY = "the process that has the data is away: connect again"
STOPPED = "broker forced connection closure with reason 'shutdown'"
GONE = (
    "transient messages and queues that are not durable may be gone, "
    "what was not confirmed may be lost; connect again"
)


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """The address where a broker listens, and its data directory."""

    host: str
    port: int
    data_dir: Path


class Broker:
    """The parts of a broker, started and stopped in order.

    Attributes:
        loop_monitor: from `start` on: how long the event loop was held.
        renewal: of certificates, also those of other doors.
        http_sockets, http: the sockets of the HTTP API, to be counted; where it listens.
        metrics: where metrics are served; their owner opens and closes it.
        passed_door: for clients of HTTP that other nodes pass on.
        recent_log: the last lines of the process's log.
        answer: answers what a leader asks about clients of this node; its owner sets it.

    Args:
        front: what speaks with its clients.
        mirror: the cluster that it belongs to; None: it is on its own.
        place: which of several processes of its node it is; None: it is the node.
    """

    def __init__(
        self,
        config: BrokerConfig,
        front: Front,
        definitions: Definitions | None = None,
        mirror: ClusterMember | None = None,
        place: ProcessPlace | None = None,
    ) -> None:
        self._config = config
        self._front = front
        self._name = node_name(config.node_name, socket.gethostname())
        self._imported = definitions
        self._mirror = mirror
        self._place = place
        self._wait_seconds = config.cluster_lease_seconds + CHANGE_SECONDS
        self._passing = None if mirror is None else Passing(mirror, self._wait_seconds)
        self._http_serve: Serve | None = None
        self._is_loaded = self._is_suspended = False
        self._serves = asyncio.Event()  # clients of AMQP; who comes before waits
        self._clock = SystemClock()
        self._group_expiry: GroupExpiry | None = None
        self._warning: asyncio.Task[None] | None = None
        self._remote: RemoteStorage | None = None
        self._front_node: FrontNode | None = None
        self._sessions: HostedSessions | None = None
        self._leading: LeadingGate | None = None
        self._process_door: ProcessDoor | None = None
        own = "" if mirror is None else mirror.name  # as other nodes, or processes, call this one
        self._replies = DirectReplies(own if place is None else place.name(self._name))
        self._deadline: ConfirmDeadline | None = None
        self._leaving: set[asyncio.Task[None]] = set()
        self._umask = 0  # of who started the process
        self.passed_door = PassedDoor()
        self.recent_log = RecentLog()
        self.answer: AnswerPieces = unanswered
        self._counts = SharedCounts()
        self._counts_timer: asyncio.TimerHandle | None = None

    async def start(self) -> BrokerAddress:
        """Recover, then listen, as a broker on its own.

        Raises:
            StartError: the data directory or the address cannot be used.
        """
        loop = asyncio.get_running_loop()
        self._open(loop)
        if self._place is not None and not self._place.leads:
            self._begin_front(loop)
            self._follow_process(self._place)
            await self._serves.wait()
            return await self._listen()
        try:
            self._logs.recover_metadata()
            await self._definitions.load()
        except START_FAULTS as error:
            raise self._unusable(error) from None
        await self._recover(loop, None)
        self._begin_front(loop)
        self._wire(loop)
        if self._place is not None:
            await self._lead_processes(self._place)
        self._serves.set()
        return await self._listen()

    async def follow(self, mirror: ClusterMember) -> BrokerAddress | None:
        """Follow another node, and serve clients by way of it.

        Returns:
            None: nothing was begun, the process has to start again first.

        Raises:
            StartError: the data directory or the address cannot be used.
        """
        assert self._passing is not None
        loop = asyncio.get_running_loop()
        self._open(loop)
        self._logs.on_failure = self._log_failed
        try:
            records = DeclaredPartitions(self._logs.metadata)
            if not await mirror.start(self._logs, records, self._definitions):
                return None
        except START_FAULTS as error:
            raise self._unusable(error) from None
        self._begin_front(loop)
        self._begin_following(
            mirror,
            mirror.name,
            lease_seconds=self._config.cluster_lease_seconds,
            confirm_seconds=self._config.cluster_confirm_seconds,
        )
        address = await self._listen()
        if self._config.management:
            self.http.serve = self._passing.serve
            await self.http.open(address.host)
        return address

    async def lead(self, epoch: int) -> None:
        """Lead, as a node that has followed; everything that was committed is applied.

        Raises:
            StartError: what the data directory holds cannot be used.
        """
        loop, front_node = asyncio.get_running_loop(), self._front_node
        assert front_node is not None
        await front_node.end()
        await self._recover(loop, epoch)
        self._wire(loop)
        front_node.hand_over(self._logs.pressures.reasons)
        self._front_node = None
        self._lead_nodes(epoch)
        self._lead_surely()
        self._is_loaded = True
        if not self._is_suspended:
            self.go_on()

    def _lead_surely(self) -> None:
        mirror, loop = self._mirror, asyncio.get_running_loop()
        assert mirror is not None
        self._leading = LeadingGate(
            self._gate, lambda: mirror.leads_until, self._clock.monotonic, loop.call_later
        )
        self._leading.begin(self._logs.pressures.reasons)

    def suspend(self, reason: str) -> None:
        """Close all clients, and let others wait: another node leads soon, or this one goes on.

        Args:
            reason: in words, for clients.
        """
        assert self._mirror is not None
        assert self._passing is not None
        self._is_suspended = True
        self._mirror.take_clients(None)
        self._mirror.take_sessions(None)
        if self._sessions is not None:
            self._sessions.close_all(reason)
        self._serves.clear()
        self.http.serve = self._passing.serve
        self._front.shut_down(f"{reason}: {GONE}")

    def go_on(self) -> None:
        """Take clients, as soon as everything is loaded: this node leads."""
        assert self._mirror is not None
        self._is_suspended = False
        if self._is_loaded:
            self._serves.set()
            self.http.serve = self._http_serve or self.http.serve
            self._mirror.take_clients(self.passed_door.take)
            if self._sessions is not None:
                self._sessions.barrier.expect(
                    self._mirror.other_nodes(), self._logs.journal.end.position
                )
                self._mirror.take_sessions(self._sessions.take)
            assert self._passing is not None
            # Who waited for a leader. Nobody waits for those who do not answer.
            leaving = self._passing.aclose("this node leads now: connect again")
            self._leaving.add(task := asyncio.create_task(leaving))
            task.add_done_callback(self._leaving.discard)

    def serve_http(self, serve: Serve) -> None:
        """From now on the HTTP API is served so."""
        self._http_serve = self.http.serve = serve
        self.passed_door.open(self.http_sockets, serve)

    async def leave(self, reason: str) -> None:
        """Close listeners and clients. What is stored stays as a crash leaves it: the process ends now.

        Nothing is flushed: what a leader that was deposed has in memory may be no part of the log.
        """
        assert self._mirror is not None
        assert self._passing is not None
        self._mirror.take_clients(None)
        if self._remote is not None:
            self._remote.stop()
        await self._close_doors()
        if self._sessions is not None:
            self._mirror.take_sessions(None)
            self._sessions.close_all(reason)
        if self._front_node is not None:
            await self._front_node.aclose(reason)
        if self._leading is not None:
            self._leading.stop()
        await self.http.close()
        await self._passing.aclose(reason)
        await self._front.aclose(reason)

    def _unusable(self, error: Exception) -> StartError:
        return StartError(f"data directory {self._config.data_dir}: {in_words(error)}")

    def _open(self, loop: asyncio.AbstractEventLoop) -> None:
        """Take the data directory, if it is this process's, and make what definitions are read into."""
        config, place = self._config, self._place
        logging.getLogger().addHandler(self.recent_log)
        self._umask = keep_private()
        if place is None or place.leads:
            self._logs = logs = self._take_directory(loop)
        else:
            has_remote = bool(config.remote_storage)
            self._logs = logs = NoLogStore(
                self._clock,
                loop,
                SystemDisk(),
                config.data_dir,
                config.memory_tail_bytes,
                has_remote=has_remote,
            )
        self._cork = Cork()
        scheduler = scheduler_of(loop)
        scheduler.around = self._cork.run
        self._gate = Gate(loop)
        writer = logs.metadata_writer
        self._passwords = PasswordVerifier(self._clock.monotonic, key=random_key())
        self._users = UserDirectory(writer, self._passwords.hash)
        self._parameters = GlobalParameters(writer)
        self._vhosts = VhostDirectory(
            logs,
            writer,
            scheduler,
            loop.call_later,
            default_durability=durability_level(config.default_durability),
            queues_max=config.queues_max,
            disabled_types=config.disabled_queue_types,
            default_vhost=config.default_vhost,
            histories_bytes_max=config.histories_bytes_max,
            definitions_bytes_max=definitions_bytes(config),
            listeners_of=self._front.listeners_of,
            relaxed_redeclaration=config.relaxed_redeclaration,
            has_fronts=place is not None,
        )
        self._vhosts.budget.limits_of = self._users.limits
        if place is None or place.leads:
            self._definitions = NodeDefinitions(
                self._vhosts, self._users, self._parameters, logs.metadata
            )
        self._event_log = EventLog(loop.call_later)
        self._vhosts.events.watch = self._event_log.write

    def _take_directory(self, loop: asyncio.AbstractEventLoop) -> LogStore:
        config = self._config
        narrow(config.data_dir)
        try:
            url = config.remote_storage
            self._bucket = open_bucket(url, SystemDisk()) if url else None
            if url:
                check_outside(url, config.data_dir)
            return open_logs(config, loop)
        except BadBucket as error:
            raise StartError(f"remote_storage: {error}") from None
        except DirectoryLocked as error:
            raise StartError(str(error)) from None
        except START_FAULTS as error:
            raise self._unusable(error) from None

    async def _recover(self, loop: asyncio.AbstractEventLoop, epoch: int | None) -> None:
        """Open what is stored, replay the journal, and begin to write; the definitions are loaded.

        Args:
            epoch: in which it leads; None: a broker on its own begins another one.
        """
        logs, vhosts, users = self._logs, self._vhosts, self._users
        try:
            gone = await self._definitions.forget_transient()
            await vhosts.open_logs()
            replayed = logs.recover()
            await vhosts.recovered()
            if self._mirror is None:
                logs.pressures.on_change = self._gate.close_for
            queues = sum(len(vhost.queues) for vhost in vhosts.all())
            counts = len(vhosts.all()), queues, len(users.users()), replayed
            text = "recovered: %d virtual hosts, %d queues, %d users, %d journal entries"
            log.info(text, *counts)
            if epoch is None:
                epoch = claim_epoch(logs.metadata, logs.journal.recovered_epoch)
            if self._front_node is not None:
                self._front_node.route_here()
            logs.start(epoch)
            for first in range(0, len(gone), ENTRY_CHANGES):
                unawaited(logs.metadata_writer.submit(gone[first : first + ENTRY_CHANGES]))
            self._start_remote(loop)
            await vhosts.load_memories()
            await self._populate()
        except START_FAULTS as error:
            raise self._unusable(error) from None
        except (InvalidDefinition, InvalidName) as error:
            if self._mirror is None:
                await self._close_stores()
            if isinstance(error, InvalidDefinition):
                raise bad_definitions(self._config.definitions_file, error) from None
            raise StartError(str(error)) from None

    def _wire(self, loop: asyncio.AbstractEventLoop) -> None:
        """Make what connections share, and tell each part who hears of what happens in it."""
        config, clock, cork = self._config, self._clock, self._cork
        logs, vhosts = self._logs, self._vhosts
        logs.progress.around = cork.run
        if logs.journal.is_replicated:
            self._deadline = ConfirmDeadline(
                logs.progress,
                lambda: logs.journal.end.position,
                config.cluster_confirm_seconds,
                lambda seconds, look: loop.call_later(seconds, cork.run, look),
            )
            self._deadline.start()
        logs.on_failure = self._log_failed
        logs.pressures.on_change = self._pressed
        self._group_expiry = GroupExpiry(
            vhosts.all, clock.monotonic, loop.call_later, scheduler_of(loop)
        )
        self._group_expiry.start()
        self._warning = loop.create_task(
            warn_of_default_passwords(self._users, self._passwords, config.loopback_rule)
        )

    def _begin_front(self, loop: asyncio.AbstractEventLoop) -> None:
        """Clients are taken from here on: here, or by way of the leader."""
        config, clock, cork = self._config, self._clock, self._cork
        logs, vhosts, users = self._logs, self._vhosts, self._users
        limits = IntakeLimits(
            config.intake_connection_bytes_max,
            config.intake_user_bytes_max,
            config.intake_bytes_max,
        )
        self._services = NodeServices(
            config=config,
            loop=loop,
            clock=clock,
            cork=cork,
            scheduler=scheduler_of(loop),
            vhosts=vhosts,
            users=users,
            passwords=self._passwords,
            parameters=self._parameters,
            admission=Admission(vhosts, users, self._counts),
            progress=logs.progress,
            in_time=self._in_time,
            gate=self._gate,
            intake=IntakeBudget(loop, limits, logs.memory.hold),
            consumer_gates=ConsumerGates(loop, cork),
            publish_rates=PublishRates(users, vhosts, self._counts, clock, loop.call_later),
            deliveries=DeliverySamples(clock),
            node_name=self._name,
            replies=self._replies,
        )
        self._front.begin(self._services)
        self._log_exchange = LogExchange(vhosts, loop, self._services.node_name)
        logging.getLogger().addHandler(self._log_exchange)
        users.on_deleted = self._user_deleted
        users.tell = vhosts.events.tell
        vhosts.on_deleted = self._vhost_deleted

    def _in_time(self, done: Awaitable[object]) -> Awaitable[object]:
        if self._front_node is not None:
            return self._front_node.in_time(done)
        return done if self._deadline is None else self._deadline.in_time(done)

    # -- a node of a cluster

    def _begin_following(
        self,
        leaders: ClusterOfFront,
        name: str,
        *,
        lease_seconds: float,
        confirm_seconds: float,
        fed: FedDefinitions | None = None,
    ) -> None:
        host = FrontHost(
            name=name,
            process=random_below(1 << 40),
            lease_seconds=lease_seconds,
            confirm_seconds=confirm_seconds,
            default_durability=durability_level(self._config.default_durability),
            vhosts=self._vhosts,
            clock=self._clock,
            cork=self._cork,
            gate=self._gate,
            close=self._front.close_some,
            serve=self._serve_as_front,
            deliver_reply=self._replies.deliver,
            answer=lambda question: self.answer(question),
            counts=self._counts,
            trace=self._trace_in,
        )
        self._front_node = FrontNode(host, leaders, fed)
        self._replies.others = self._front_node
        self._front_node.begin()
        self._tell_counts()

    def _tell_counts(self) -> None:
        self._services.publish_rates.share()
        teller = self._sessions if self._front_node is None else self._front_node
        if teller is not None:
            teller.tell_counts()
        self._counts_timer = self._services.loop.call_later(TELL_SECONDS, self._tell_counts)

    def _traced(self) -> list[str]:
        return [vhost.name for vhost in self._vhosts.all() if vhost.firehose is not None]

    def _trace_in(self, names: Sequence[str]) -> None:
        for vhost in self._vhosts.all():
            self._front.trace(vhost, vhost.name in names)

    def trace(self, vhost: VirtualHost, wanted: bool) -> None:
        """Switch the firehose of a vhost on or off, for clients of all nodes."""
        self._front.trace(vhost, wanted)
        if self._sessions is not None:
            self._sessions.tell_traced()

    def _serve_as_front(self, serves: bool) -> None:
        if serves:
            self._serves.set()
        else:
            self._serves.clear()

    def _follow_process(self, place: ProcessPlace) -> None:
        """Serve clients by way of the process that has the data."""

        def failed(_: Exception) -> None:
            # The parent starts another one, which begins with nothing.
            signal.raise_signal(signal.SIGTERM)

        fed = FedDefinitions(self._vhosts, self._users, self._parameters, failed)
        leader, own = place.name(self._name, LEADER), place.name(self._name)
        self._begin_following(
            LeadingProcess(door_path(self._config.data_dir), leader, own, fed),
            own,
            lease_seconds=PROCESS_LEASE_SECONDS,
            confirm_seconds=PROCESS_CONFIRM_SECONDS,
            fed=fed,
        )

    async def _lead_processes(self, place: ProcessPlace) -> None:
        """Take the sessions of the other processes, and feed them the definitions."""
        logs = self._logs
        feed = DefinitionFeed(logs.metadata, self._definitions.prefixes)
        epoch = logs.intake.leader_epoch
        sessions = self._host_sessions(epoch, PROCESS_LEASE_SECONDS, feed=feed)
        fronts = [place.name(self._name, each) for each in place.page.all if each != LEADER]
        # They may have other definitions, until they see that the process before this one has ended.
        sessions.barrier.expect(fronts, feed.position)
        logs.metadata_writer.on_applied = feed.changed
        logs.metadata_writer.barrier = lambda position: sessions.barrier.gate(feed.position)
        self._process_door = ProcessDoor(door_path(self._config.data_dir), fronts, sessions.take)
        try:
            await self._process_door.open()
        except OSError as error:
            await self._close_stores()
            raise self._unusable(error) from None
        self._tell_counts()

    def _lead_nodes(self, epoch: int) -> None:
        """Take the sessions of the other nodes of the cluster."""
        mirror, now = self._mirror, self._clock.monotonic
        assert mirror is not None
        sessions = self._host_sessions(
            epoch,
            self._config.cluster_lease_seconds,
            mirror.tell_committed,
            age=lambda: max(0.0, now() + mirror.sure_seconds - mirror.leads_until),
        )
        mirror.on_gone = sessions.barrier.gone
        self._logs.metadata_writer.barrier = sessions.barrier.gate

    def _host_sessions(
        self,
        epoch: int,
        lease_seconds: float,
        tell_committed: Callable[[], None] = lambda: None,
        feed: DefinitionFeed | None = None,
        age: Callable[[], float] = lambda: 0.0,
    ) -> HostedSessions:
        replies = self._replies
        host = SessionHost(
            self._vhosts,
            self._logs.progress,
            self._services.scheduler,
            replies.pass_on,
            replies.is_open,
            self._front.commit,
            self._in_time,
        )

        def make(front: str, write: Write, outbox_bytes: Callable[[], int]) -> HostedSession:
            session = HostedSession(host, write, front)
            session.outbox_bytes = outbox_bytes
            return session

        self._sessions = HostedSessions(
            epoch, lease_seconds, make, self._counts, self._traced, tell_committed, feed, age
        )
        self._replies.others = self._sessions
        return self._sessions

    def _start_remote(self, loop: asyncio.AbstractEventLoop) -> None:
        logs, bucket = self._logs, self._bucket
        if bucket is None:
            return
        epoch, next_number = logs.intake.leader_epoch, self._vhosts.next_partition
        self._remote = RemoteStorage(
            logs.shard,
            bucket,
            EpochBeginning.now(epoch, logs.partitions, next_number),
            reads=logs.remote_reads,
            address=without_secrets(self._config.remote_storage),
            bytes_per_second=self._config.remote_storage_bytes_per_second,
        )
        logs.on_removed = self._remote.removed
        self._remote.start(loop)

    async def ask_nodes(self, question: bytes) -> Mapping[str, NodeAnswer | None]:
        """Ask the other nodes about their clients; see `HostedSessions.ask`. Nobody, unless this one leads."""
        return {} if self._sessions is None else await self._sessions.ask(question)

    @property
    def remote_failure(self) -> str:
        """Why segments are not copied to remote storage, or readers wait for it; empty: nothing is wrong."""
        copying = "" if self._remote is None else self._remote.failure
        return copying or self._logs.remote_reads.failure

    @property
    def takes_clients(self) -> bool:
        """Whether clients of AMQP are served, by this node's own queues or by way of another one."""
        return self._serves.is_set()

    @property
    def services(self) -> NodeServices:
        """What its doors share; there from the start on."""
        return self._services

    @property
    def logs(self) -> LogStore:
        """The store, for standbys and operators."""
        return self._logs

    @property
    def connections_max(self) -> int:
        """How many connections of AMQP there may be."""
        return self._amqp_sockets.limits.all

    @property
    def note(self) -> TellEvent:
        """Writes to the log."""
        return self._vhosts.events.note

    @property
    def sockets(self) -> int:
        """How many clients of AMQP are connected, with all processes of the node."""
        return len(self._amqp_sockets) + self._amqp_sockets.elsewhere()

    @property
    def processes(self) -> list[ProcessState]:
        """The processes of the node, if it has several."""
        return [] if self._place is None else self._place.page.states()

    @property
    def alarms(self) -> list[str]:
        """Why publishers wait."""
        return sorted(self._gate.alarms)

    def backups(self, version: str) -> Backups:
        """What makes backups of it; its owner closes it before the broker stops."""
        config = self._config
        return Backups(
            self._logs.copies,
            SystemDisk(),
            self._clock,
            self._services.loop,
            node=self._services.node_name,
            version=version,
            remote_storage=without_secrets(config.remote_storage),
            bytes_per_second=config.backup_bytes_per_second,
        )

    def _user_deleted(self, name: str) -> None:
        reason = f"user '{name}' was deleted"
        self._front.close_user(name, reason)

    def _vhost_deleted(self, name: str) -> None:
        reason = f"vhost '{name}' is deleted"
        self._front.close_vhost(name, reason)

    async def _populate(self) -> None:
        config, vhosts, users = self._config, self._vhosts, self._users
        if self._imported is not None:
            # Who brings his own users wants no guest.
            await DefinitionsImport(vhosts, users, self._parameters).run(self._imported)
            await self._parameters.name_cluster(random_key())
            return
        if not vhosts.all():
            await vhosts.add(config.default_vhost)
            await self._parameters.name_cluster(random_key())
        await users.create_default_user(
            config.default_user, config.default_password.encode(), config.default_vhost
        )

    async def _listen(self) -> BrokerAddress:
        """Accept connections, and begin to watch the process."""
        loop = asyncio.get_running_loop()
        config, logs = self._config, self._logs
        files = open_files_limit()
        limits = socket_limits(config, files)
        log.info(
            "of %d open files %d are for AMQP, %d for HTTP, %d for nodes, the rest for the log",
            files,
            limits.amqp.all,
            limits.http.all,
            limits.nodes.all,
        )
        self._amqp_sockets = AcceptedSockets("AMQP", limits.amqp, self._clock.monotonic)
        share = None
        if self._place is not None:
            share = AcceptShare(self._place.page, self._place.number)
            self._amqp_sockets.on_count, self._amqp_sockets.elsewhere = share.has, share.elsewhere
        self.http_sockets = AcceptedSockets("HTTP", limits.http, self._clock.monotonic)
        self.renewal = CertificateRenewal(loop)
        if self._mirror is not None and self._mirror.certificates is not None:
            self.renewal.watch("clustering", self._mirror.certificates)
        self._listeners = Listeners(
            config,
            loop,
            self._amqp_sockets,
            self._serve,
            self.renewal,
            self._umask,
            self.note,
            self._until_served,
            None if self._place is None else self._place.sockets,
            share,
        )
        self.http = HttpListeners(config, loop, self.http_sockets, self.renewal, self.note)
        self.metrics = MetricsListener(config, loop, self._clock.monotonic, self.note)
        try:
            host, port = await self._listeners.open()
        except CannotListen as error:
            self.renewal.stop()
            if self._mirror is None:
                await self._close_stores()
            raise StartError(str(error)) from None
        self._stalled = StalledSockets(
            loop, scheduler_of(loop), self._amqp_sockets, config.send_timeout_seconds
        )
        self.loop_monitor = LoopMonitor(loop, self._clock)
        self.loop_monitor.start()
        self._trim = MemoryTrim(loop, lambda: logs.bytes_in_memory)
        self._trim.start()
        return BrokerAddress(host, port, config.data_dir)

    async def _until_served(self) -> None:
        if not self._serves.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(self._wait_seconds):
                    await self._serves.wait()

    def _serve(self, accepted: AcceptedSocket, proxied: Endpoint | None) -> ServedSocket:
        refusal = ""
        if not self._serves.is_set():
            refusal = AWAY if self._mirror is None else self._mirror.refusal
        return self._front.serve(accepted, proxied, refusal)

    @property
    def tls_address(self) -> tuple[str, int] | None:
        """Where it listens for TLS; None: it does not."""
        return self._listeners.tls_address

    def _pressed(self, reasons: frozenset[str]) -> None:
        events, gate = self._vhosts.events, self._services.gate
        before = frozenset(gate.reasons) - {UNLED}
        if self._leading is None:
            self._gate.close_for(reasons)
        else:
            self._leading.pressed(reasons)
        if self._sessions is not None:
            self._sessions.pressed(reasons)
        for what, changed in (("alarm.set", reasons - before), ("alarm.cleared", before - reasons)):
            for each in sorted(changed):
                events.tell(what, resource=each, node=self._services.node_name)

    def _log_failed(self, error: Exception) -> None:
        if self._mirror is not None:
            return self._mirror.end(str(error))
        self._logs.progress.fail()
        node = self._services.node_name
        self._vhosts.events.tell("alarm.set", resource="log", node=node)

    async def stop(self) -> None:
        """Accept nobody, close connections with 320, write what is needed, let go of the files."""
        await self._close_doors()
        logging.getLogger().removeHandler(self._log_exchange)
        await self._front.aclose(STOPPED)
        if self._front_node is not None:
            await self._front_node.aclose(STOPPED)
        if self._process_door is not None:
            self._process_door.close()
        if self._sessions is not None:
            await self._sessions.until_ended(END_SECONDS_MAX)  # the other processes end, too
            self._sessions.close_all(STOPPED)
        self._services.scheduler.finish()
        self._event_log.stop()
        await self._close_stores()
        logging.getLogger().removeHandler(self.recent_log)

    async def _close_doors(self) -> None:
        await self._listeners.close()
        self._stalled.stop()
        if self._deadline is not None:
            self._deadline.stop()
        if self._counts_timer is not None:
            self._counts_timer.cancel()
        self.renewal.stop()
        self.loop_monitor.stop()
        self._trim.stop()

    async def _close_stores(self) -> None:
        if self._warning is not None:
            self._warning.cancel()
        self._passwords.close()
        if self._group_expiry is not None:
            self._group_expiry.stop()
        if self._remote is not None:
            await self._remote.aclose()
        await self._logs.aclose()
        await self._front.finish()
