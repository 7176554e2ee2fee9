"""The coordinator that an operator's options name."""

from routelog.mirror_cluster.coordination.etcd_coordinator import EtcdCoordinator
from routelog.mirror_cluster.coordination.etcd_gateway import EtcdEndpoints, EtcdGateway
from routelog.mirror_cluster.node.cluster_options import ClusterOptions

# A leader that is cut off is replaced after this; docs/internals/mirroring.md has the times.
LEASE_SECONDS = 2


def open_coordinator(options: ClusterOptions) -> EtcdCoordinator:
    """Connects when it is asked something; close it."""
    tls = options.etcd_tls
    endpoints = EtcdEndpoints(options.etcd, options.etcd_user, options.etcd_password, tls)
    return EtcdCoordinator(EtcdGateway(endpoints), f"/routelog/{options.name}", LEASE_SECONDS)
