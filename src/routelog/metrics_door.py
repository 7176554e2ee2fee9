"""The door for Prometheus, of a node that takes clients or not.

The code of `management` is loaded where metrics are switched on: a broker without them starts faster. A node of
a cluster loads it before it joins.
"""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version as distribution_version
from typing import TYPE_CHECKING

from routelog.amqp_front.server.front import AmqpFront
from routelog.broker.node.configuration import BrokerConfig, node_name
from routelog.broker.process.broker import Broker, BrokerAddress
from routelog.broker.process.open_files import open_files_limit
from routelog.broker.sockets.stalled_sockets import StalledSockets
from routelog.log_backend import scheduler_of
from routelog.mirror_cluster import ClusterState

if TYPE_CHECKING:
    from routelog.management.calls.broker_side import WatchedBroker


def load_metrics_door(config: BrokerConfig) -> None:
    """Load what the door needs, if the configuration wants it."""
    if config.prometheus:
        import routelog.management  # noqa: F401


def watched_broker(broker: Broker, front: AmqpFront) -> "WatchedBroker":
    """What metrics tell of the clients of this process."""
    from routelog.management.calls.broker_side import WatchedBroker

    services = broker.services
    return WatchedBroker(
        services.vhosts,
        front.operators,
        services.progress.latencies,
        services.deliveries.waits,
        services.deliveries.sizes,
        services.publish_rates,
    )


@asynccontextmanager
async def metrics_door(
    config: BrokerConfig,
    broker: Broker,
    front: AmqpFront,
    address: BrokerAddress,
    cluster: ClusterState,
) -> AsyncIterator[None]:
    """Keep the door open, if the configuration wants it."""
    if not config.prometheus:
        yield
        return
    from routelog.management.metrics.watched import WatchedNode
    from routelog.management.server.metrics_server import MetricsServer

    def cluster_name() -> str:
        return broker.services.cluster_name() if broker.takes_clients else config.cluster_name

    loop, clock = asyncio.get_running_loop(), broker.store.logs.clock
    sockets = broker.listeners.amqp_sockets
    node = WatchedNode(
        name=node_name(config.node_name, socket.gethostname()),
        version=distribution_version("routelog-broker"),
        cluster_name=cluster_name,
        clock=clock,
        started_at=clock.monotonic(),
        file_descriptors_max=open_files_limit(),
        sockets=lambda: len(sockets) + sockets.elsewhere(),
        sockets_max=sockets.limits.all,
        space=broker.store.logs.space,
        journal=broker.store.logs.journal,
        compactor=broker.store.logs.compactor,
        alarms=lambda: sorted(broker.store.gate.alarms),
        held_seconds=lambda: broker.loop_monitor.longest_ms_last_minute / 1_000,
        cluster=cluster,
        expiries=broker.listeners.renewal.expiries,
        broker=lambda: watched_broker(broker, front) if broker.takes_clients else None,
        ask_nodes=broker.sessions.ask,
        processes=lambda: broker.processes,
    )
    server = MetricsServer(node, config.handshake_seconds, broker.store.vhosts.events.note)
    await server.start()
    stalled = StalledSockets(
        loop, scheduler_of(loop), broker.listeners.metrics.sockets, server.stall_seconds
    )
    await broker.listeners.metrics.open(
        address.host, lambda accepted, client: server.serve(accepted)
    )
    try:
        yield
    finally:
        await broker.listeners.metrics.close()
        stalled.stop()
        await server.stop()
