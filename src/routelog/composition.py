"""A node, put together: its cluster or its standbys, its broker, and the doors of operators."""

import socket
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import asdict
from functools import partial
from typing import Any, NoReturn

from routelog.amqp_front.server.front import AmqpFront
from routelog.broker.node.configuration import BrokerConfig, node_name
from routelog.broker.process.broker import Broker, BrokerAddress
from routelog.broker.process.data_directory import DefinitionsFile, StartError
from routelog.broker.process.mirrored_broker import MirroredBroker
from routelog.broker.process.open_files import open_files_limit, socket_limits
from routelog.broker.process.process_brokers import ProcessFront, ProcessLeader
from routelog.broker.process.processes import ProcessPlace
from routelog.broker.process.run import run
from routelog.broker.sockets.accepted_sockets import AcceptedSockets
from routelog.log_backend import SystemClock, SystemDisk
from routelog.metrics_door import load_metrics_door, metrics_door
from routelog.mirror_cluster import (
    ClusterMember,
    ClusterOptions,
    ReplicaState,
    StandbyDoor,
    StandbyOptions,
)
from routelog.operators_door import (
    ManagedBroker,
    load_door,
    managed_broker,
    remove_left_door,
)


class Composition:
    """Puts a node together and runs it.

    Args:
        cluster: None: the node is on its own.
        standbys: where a node on its own listens for standbys; None: it has none.
        place: which of several processes of the node this one is; None: it is the node.

    Raises:
        StartError: see `AmqpFront`.
    """

    def __init__(
        self,
        config: BrokerConfig,
        cluster: ClusterOptions | None,
        standbys: StandbyOptions | None,
        place: ProcessPlace | None = None,
    ) -> None:
        self._config = config
        self._place = place
        self._cluster = cluster
        self._standby_options = standbys
        name = node_name(config.node_name, socket.gethostname())
        self._alone = [ReplicaState(name)]
        self._front = AmqpFront(config, name, SystemClock())
        self._member: ClusterMember | None = None
        self._standby_door: StandbyDoor | None = None
        self._managed: ManagedBroker | None = None

    def run(
        self,
        on_ready: Callable[[BrokerAddress], None],
        definitions: DefinitionsFile | None,
        on_end: Callable[[str], NoReturn],
    ) -> None:
        """Run the node until SIGTERM or SIGINT; see `broker.process.run.run`.

        Raises:
            StartError, CannotJoin: it cannot start.
        """
        if self._cluster is not None:
            load_door(self._config)
            load_metrics_door(self._config)
        run(
            partial(self._make, definitions),
            on_ready,
            doors=self.doors,
            watch=self._watch,
            on_end=on_end,
        )

    def _make(self, definitions: DefinitionsFile | None) -> Broker:
        config, front, place = self._config, self._front, self._place
        if self._cluster is not None:
            self._member = ClusterMember(
                self._cluster,
                config.data_dir,
                SystemDisk(),
                SystemClock(),
                [sys.executable, "-m", "routelog.broker.process.copy_digest"],
                _node_sockets(config),
            )
            return MirroredBroker(config, front, self._member, definitions)
        if place is None:
            return Broker(config, front, definitions)
        return (ProcessLeader if place.leads else ProcessFront)(config, front, definitions, place)

    @asynccontextmanager
    async def doors(self, broker: Broker, address: BrokerAddress) -> AsyncIterator[None]:
        """Keep the doors for standbys and operators open, of a node that takes clients."""
        if self._is_front:
            yield
            return
        member = self._member
        listeners = {} if member is None else {"clustering": member.listens}
        async with AsyncExitStack() as doors:
            if self._standby_options is not None:
                sockets = _node_sockets(self._config)
                door = await _open_standby_door(self._standby_options, broker, sockets)
                broker.last_doors.push_async_callback(door.aclose)
                self._standby_door = door
                listeners["standby"] = door.address
            managed = self._managed
            if managed is None:
                managed = await doors.enter_async_context(self._manage(broker, address, listeners))
            if managed is not None:
                await doors.enter_async_context(managed.door())
            yield

    @property
    def _is_front(self) -> bool:
        # The process that has the data serves operators.
        return self._place is not None and not self._place.leads

    @asynccontextmanager
    async def _watch(self, broker: Broker, address: BrokerAddress) -> AsyncIterator[None]:
        if self._is_front:
            async with self._manage(broker, address, {}):
                yield
            return
        remove_left_door(address.data_dir)
        async with AsyncExitStack() as watches:
            metrics = metrics_door(self._config, broker, self._front, address, self)
            await watches.enter_async_context(metrics)
            if self._member is not None:
                listeners = {"clustering": self._member.listens}
                managing = self._manage(broker, address, listeners)
                self._managed = await watches.enter_async_context(managing)
            yield

    def _manage(
        self, broker: Broker, address: BrokerAddress, listeners: Mapping[str, tuple[str, int]]
    ) -> AbstractAsyncContextManager[ManagedBroker | None]:
        return managed_broker(
            broker, self._front, address, listeners, self, is_front=self._is_front
        )

    # -- the cluster, for operators: `ClusterState`

    @property
    def min_in_sync(self) -> int:
        """How many nodes must be in sync for a confirm."""
        return 1 if self._member is None else self._config.cluster_min_in_sync

    def replicas(self) -> list[ReplicaState]:
        """All nodes."""
        return self._alone if self._member is None else self._member.replicas()

    def leadership(self) -> dict[str, Any] | None:
        """Who leads, and what changed; None: a node on its own."""
        return None if self._member is None else self._member.leadership()

    def standbys(self) -> list[dict[str, Any]]:
        """How far each standby is behind."""
        return [] if self._standby_door is None else [*map(asdict, self._standby_door.lags())]


def _node_sockets(config: BrokerConfig) -> AcceptedSockets:
    limits = socket_limits(config, open_files_limit()).nodes
    return AcceptedSockets("nodes", limits, SystemClock().monotonic)


async def _open_standby_door(
    options: StandbyOptions, broker: Broker, sockets: AcceptedSockets
) -> StandbyDoor:
    door = StandbyDoor(options, broker.store.logs, broker.services.clock, sockets)
    if options.tls is not None:
        broker.listeners.renewal.watch("standby", options.tls)
    try:
        await door.open()
    except OSError as error:
        raise StartError(f"standby_listen: {error}") from None
    return door
