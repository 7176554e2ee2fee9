"""Replicas, leaders and epochs: who may append to a shard's journal, and what of it is committed."""

from routelog.mirror_cluster.links.receive_buffer import ReceiveBuffer
from routelog.mirror_cluster.node.cluster_member import CannotJoin, ClusterMember, LeadingNode
from routelog.mirror_cluster.node.cluster_options import (
    BadClusterOption,
    ClusterOptions,
    cluster_options,
)
from routelog.mirror_cluster.node.replica_state import ClusterState, ReplicaState
from routelog.mirror_cluster.secret_key import secret_key
from routelog.mirror_cluster.standalone import claim_epoch
from routelog.mirror_cluster.standby.standby import NoStandby, StandbyNode, is_standby, promote
from routelog.mirror_cluster.standby.standby_door import (
    StandbyDoor,
    StandbyOptions,
    follow_options,
    listen_options,
)

__all__ = [
    "BadClusterOption",
    "CannotJoin",
    "ClusterMember",
    "ClusterOptions",
    "ClusterState",
    "LeadingNode",
    "NoStandby",
    "ReceiveBuffer",
    "ReplicaState",
    "StandbyDoor",
    "StandbyNode",
    "StandbyOptions",
    "claim_epoch",
    "cluster_options",
    "follow_options",
    "is_standby",
    "listen_options",
    "promote",
    "secret_key",
]
