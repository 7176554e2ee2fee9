"""The door of a running node for its standbys, and what an operator says of it and of whoever follows."""

from dataclasses import dataclass, field
from typing import Protocol

from routelog.log_backend import Clock, LogStore
from routelog.mirror_cluster.coordination.coordinator import NodeEntry
from routelog.mirror_cluster.links.node_door import DoorSockets
from routelog.mirror_cluster.links.node_links import LinkSecurity, NodeLinks
from routelog.mirror_cluster.node.cluster_options import (
    BadClusterOption,
    ClusterKeys,
    checked_secret,
    host_and_port,
    node_tls,
)
from routelog.mirror_cluster.node.copy_sender import CopySender
from routelog.mirror_cluster.node.incarnation import new_number
from routelog.mirror_cluster.node_tls import NodeTls
from routelog.mirror_cluster.protocol.messages import Message
from routelog.mirror_cluster.standby.follow_sender import FollowSender, StandbyLag

# What the node that is followed is called between it and its standbys, who know no more of it than an address.
LEADER = "the leader"


class StandbyKeys(ClusterKeys, Protocol):
    """The keys of a configuration that tell of a standby."""

    @property
    def standby_listen(self) -> str:
        """Where a node listens for its standbys; empty: nowhere."""


@dataclass(frozen=True)
class StandbyOptions:
    """A connection between a node and its standbys.

    Attributes:
        cluster: its name: what has another name is refused.
        address: where the node listens, or where its standby finds it: host and port.
        tls: None: the connection has none.
    """

    cluster: str
    address: tuple[str, int]
    secret: bytes = field(repr=False)
    tls: NodeTls | None = None


def listen_options(keys: StandbyKeys) -> StandbyOptions | None:
    """Where a node listens for standbys.

    Returns:
        None: it has none.

    Raises:
        BadClusterOption: the first key that cannot be used.
    """
    return _options(keys, "standby_listen", keys.standby_listen) if keys.standby_listen else None


def follow_options(keys: StandbyKeys, address: str) -> StandbyOptions:
    """What a standby follows.

    Raises:
        BadClusterOption: the first key that cannot be used.
    """
    return _options(keys, "follow", address)


def _options(keys: StandbyKeys, key: str, address: str) -> StandbyOptions:
    if keys.cluster_nodes:
        raise BadClusterOption(f"{key}: not together with cluster_nodes")
    secret = checked_secret(keys.cluster_secret)
    where = host_and_port(key, address)
    # Either may be at an address that the other one does not dial.
    return StandbyOptions(keys.cluster_name, where, secret, node_tls(keys, None))


class StandbyDoor:
    """Listens for standbys.

    Attributes:
        address: where it listens, host and port.

    Args:
        logs: of a node on its own, which runs.
        sockets: see `NodeLinks`.
    """

    def __init__(
        self, options: StandbyOptions, logs: LogStore, clock: Clock, sockets: DoorSockets
    ) -> None:
        self.address = options.address
        self._follows = FollowSender(logs.journal, clock)
        self._copies = CopySender(logs.copies, self._follows.has_caught_up, lambda: True)
        own = NodeEntry(LEADER, new_number(), "", 0)
        security = LinkSecurity(options.secret, options.tls)
        self._links = NodeLinks(options.cluster, own, security, _drop, _ignore, sockets)
        self._links.take_copier = self._copies.take
        self._links.take_follower = self._follows.take

    async def open(self) -> int:
        """Take connections; returns the port.

        Raises:
            OSError: it cannot listen.
        """
        return await self._links.listen(*self.address)

    def lags(self) -> list[StandbyLag]:
        """How far each standby is behind that has followed since this node was started."""
        return self._follows.lags()

    async def aclose(self) -> None:
        """End all connections, when standbys have what clients were told is safe."""
        await self._follows.finish()
        await self._links.aclose()
        await self._follows.aclose()
        await self._copies.aclose()


def _drop(name: str, message: Message) -> None:
    """Standbys send nothing on a connection that is not given away."""


def _ignore(name: str) -> None:
    """Nothing depends on whether a standby is there."""
