"""Replicas, leaders and epochs: who may append to a shard's journal, and what of it is committed."""

from routelog.mirror_cluster.links.receive_buffer import ReceiveBuffer
from routelog.mirror_cluster.node.cluster_member import CannotJoin, ClusterMember, LeadingNode
from routelog.mirror_cluster.node.cluster_options import (
    BadClusterOption,
    ClusterOptions,
    cluster_options,
)
from routelog.mirror_cluster.node.journal_storage import JournalStorage
from routelog.mirror_cluster.node.replica_state import ClusterState, ReplicaState
from routelog.mirror_cluster.protocol.shard_record import Member, ShardRecord
from routelog.mirror_cluster.replica.chain import Chain
from routelog.mirror_cluster.replica.lease import Lease
from routelog.mirror_cluster.replica.replica import Replica
from routelog.mirror_cluster.replica.settings import ReplicaSettings
from routelog.mirror_cluster.replica.shard_log import Identity
from routelog.mirror_cluster.secret_key import secret_key
from routelog.mirror_cluster.standalone import claim_epoch
from routelog.mirror_cluster.standby.follow_sender import StandbyLag
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
    "Chain",
    "ClusterMember",
    "ClusterOptions",
    "ClusterState",
    "Identity",
    "JournalStorage",
    "LeadingNode",
    "Lease",
    "Member",
    "NoStandby",
    "ReceiveBuffer",
    "Replica",
    "ReplicaSettings",
    "ReplicaState",
    "ShardRecord",
    "StandbyDoor",
    "StandbyLag",
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
