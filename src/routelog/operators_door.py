"""The management of a node: its HTTP API, and the file that lets this machine's command line in.

A node that does not lead has no door: clients of HTTP are passed on. It answers the leader about its clients,
and so does a process that does not have the data.

The code of `management` is loaded where the API is switched on: a broker without it starts faster. A node of a
cluster loads it before it joins: when it begins to lead, its lease would have to wait for that.
"""

import logging
import os
import socket
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import version as distribution_version
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from routelog.amqp_front.server.front import AmqpFront
from routelog.broker.listeners.acceptor import ServedSocket
from routelog.broker.node.configuration import BrokerConfig
from routelog.broker.process.broker import Broker, BrokerAddress
from routelog.broker.process.open_files import open_files_limit
from routelog.broker.sockets.accepted_sockets import AcceptedSocket
from routelog.broker.sockets.proxy_header import Endpoint, PassedClient
from routelog.broker.sockets.stalled_sockets import StalledSockets
from routelog.log_backend import StoredLogs, SystemDisk, random_key, random_name
from routelog.metrics_door import watched_broker
from routelog.mirror_cluster import ClusterState, secret_key
from routelog.vhosts import unanswered

if TYPE_CHECKING:
    from routelog.management.server.server import ManagementServer

log = logging.getLogger(__name__)

# In the data directory.
MANAGEMENT_FILE = "management.json"  # for the command line
LOG_TOKEN_FILE = "log_token.key"  # of a node on its own: tokens outlive a restart

_KEY_BYTES = 32


def load_door(config: BrokerConfig) -> None:
    """Load what the door needs, if the configuration wants it."""
    if config.management:
        from routelog.management.server.server import prepare

        prepare(distribution_version("routelog-broker"))


@dataclass(frozen=True, slots=True)
class ManagedBroker:
    """The management of a node that has clients.

    Attributes:
        listeners: by protocol, address and port.
    """

    broker: Broker
    server: "ManagementServer"
    token: str
    listeners: dict[str, tuple[str, int]]
    file: Path

    @asynccontextmanager
    async def door(self) -> AsyncIterator[None]:
        """Keep the door open: the node leads, or is on its own."""
        broker, server, services = self.broker, self.server, self.broker.services
        server.lead()

        def serve(accepted: AcceptedSocket, client: Endpoint | None) -> ServedSocket:
            is_tls = isinstance(client, PassedClient) and client.is_tls
            address = None if client is None else (client.address, client.port)
            return server.serve(accepted, address, is_tls)

        stalled = StalledSockets(
            services.loop, services.scheduler, broker.listeners.http_sockets, server.stall_seconds
        )
        broker.serve_http(serve)
        await broker.listeners.http.open(self.listeners["amqp"][0])
        self.listeners.update(broker.listeners.http.addresses)
        if "http" in self.listeners:
            tell_commands(self.file, _local_url(*self.listeners["http"]), self.token)
        try:
            yield
        finally:
            self.file.unlink(missing_ok=True)
            await broker.listeners.http.close()
            stalled.stop()
            await server.stop()


@asynccontextmanager
async def managed_broker(
    broker: Broker,
    front: AmqpFront,
    address: BrokerAddress,
    other_listeners: Mapping[str, tuple[str, int]],
    cluster: ClusterState,
    *,
    is_front: bool = False,
) -> AsyncIterator[ManagedBroker | None]:
    """Manage a node that has clients, and answer the one that leads; None: the configuration does not want it.

    Args:
        other_listeners: of the cluster and of standbys: by protocol, address and port.
        is_front: it does not have the data: what has them may ask for metrics, too.
    """
    services = broker.services
    config = services.config
    if not (config.management or (is_front and config.prometheus)):
        yield None
        return
    from routelog.management.calls.broker_side import BrokerSide, FindingLimits, NodeFacts
    from routelog.management.calls.request_origin import HostNames
    from routelog.management.server.server import ManagementServer

    listeners = {"amqp": (address.host, address.port)}
    if broker.listeners.amqp.tls_address is not None:
        listeners["amqp/ssl"] = broker.listeners.amqp.tls_address
    listeners |= other_listeners
    if broker.listeners.metrics.address is not None:
        listeners["http/prometheus"] = broker.listeners.metrics.address
    logs = StoredLogs(SystemDisk(), services.loop)
    backups = broker.store.backups(services.node_name, distribution_version("routelog-broker"))
    side = BrokerSide(
        vhosts=services.vhosts,
        users=services.users,
        passwords=services.passwords,
        parameters=services.parameters,
        connections=front.operators,
        ask_nodes=broker.sessions.ask,
        messages=front.messages,
        node=NodeFacts(
            name=services.node_name,
            version=distribution_version("routelog-broker"),
            # Of several, their parent: it is told to end, or to read certificates again.
            process_id=os.getppid() if broker.processes else os.getpid(),
            data_dir=str(address.data_dir),
            started_at=services.clock.monotonic(),
            file_descriptors_max=open_files_limit(),
            connections_max=broker.listeners.amqp_sockets.limits.all,
            listeners=listeners,
            banner=config.management_banner,
        ),
        cluster_name=services.cluster_name,
        cluster=cluster,
        clock=services.clock,
        loopback_rule=config.loopback_rule,
        host_names=HostNames(own_names(config)),
        expiries=broker.listeners.renewal.expiries,
        alarms=lambda: sorted(broker.store.gate.alarms),
        in_time=services.in_time,
        processes=lambda: broker.processes,
        log_failure=lambda: str(broker.store.logs.journal.failure or ""),
        remote_failure=lambda: broker.store.remote_failure,
        space=broker.store.logs.space,
        intake_bytes=lambda: (services.intake.node.bytes, config.intake_bytes_max),
        trace=broker.sessions.trace,
        logs=logs,
        backups=backups,
        log_lines=broker.recent_log.lines,
        reader_hold_bytes_max=config.reader_hold_bytes_max,
        log_token_key=log_token_key(config, address.data_dir),
        findings=FindingLimits(config.findings_messages, config.findings_age_seconds),
        watched=watched_broker(broker, front),
    )
    token = random_name()
    server = ManagementServer(side, token, config.handshake_seconds)
    await server.start()
    broker.sessions.answer = server.answers.pieces
    try:
        yield ManagedBroker(broker, server, token, listeners, address.data_dir / MANAGEMENT_FILE)
    finally:
        broker.sessions.answer = unanswered
        await server.stop()
        await backups.aclose()
        logs.close()


def remove_left_door(data: Path) -> None:
    """Remove the file of a process that was killed, as long as there is no door of this one."""
    (data / MANAGEMENT_FILE).unlink(missing_ok=True)


def own_names(config: BrokerConfig) -> Iterator[str]:
    """What the configuration and the system call this node, and the other nodes, which pass requests on."""
    yield socket.gethostname()
    yield config.node_name.partition("@")[2]
    for addresses in (config.host, config.management_host):
        yield from addresses.split(",")
    for node in config.cluster_nodes:
        name, _, address = node.partition("=")
        yield name.partition("@")[2]
        yield address.rpartition(":")[0]
    for certificate in config.tls_names:
        yield certificate.partition("=")[0]
    yield from config.management_names


def log_token_key(config: BrokerConfig, data: Path) -> bytes:
    """What signs tokens for logs: all nodes of a cluster have the same, so tokens outlive a leader."""
    if not config.cluster_nodes:
        return _kept_key(data / LOG_TOKEN_FILE)
    secret = config.cluster_secret.encode()
    return secret_key(secret, b"routelog log tokens", config.cluster_name, _KEY_BYTES)


def tell_commands(file: Path, url: str, token: str) -> None:
    """Write down where commands of this machine find the node; a full disk is logged: clients come first."""
    try:
        write_private(file, msgspec.json.encode({"url": url, "token": token}))
    except OSError as error:
        log.error("commands of this machine cannot find this node: %s", error)


def write_private(file: Path, content: bytes) -> None:
    """Create or replace a file that only its owner reads: at any time it is whole."""
    scratch = file.with_name(f"{file.name}.new")
    with suppress(FileNotFoundError):
        scratch.unlink()  # it may be there from a run that crashed, or with another mode
    descriptor = os.open(scratch, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with open(descriptor, "wb") as private:
        private.write(content)
    scratch.replace(file)


def _kept_key(file: Path) -> bytes:
    made = random_key()
    with suppress(FileNotFoundError):
        kept = file.read_bytes()
        if len(kept) == len(made):  # or a crash cut it off
            return kept
    write_private(file, made)
    return made


def _local_url(host: str, port: int) -> str:
    # Who listens on all addresses listens on the loopback one, too.
    if host in ("0.0.0.0", "::"):
        host = "127.0.0.1" if host == "0.0.0.0" else "::1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
