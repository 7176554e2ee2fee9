"""What an operator says of a standby, checked as a whole."""

from dataclasses import dataclass, field
from typing import Protocol

from routelog.mirror_cluster.node.cluster_options import (
    BadClusterOption,
    ClusterKeys,
    checked_secret,
    host_and_port,
    node_tls,
)
from routelog.mirror_cluster.node_tls import NodeTls

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
