"""The coordinator that an operator's options name."""

from routelog.mirror_cluster.coordination.etcd_coordinator import EtcdCoordinator
from routelog.mirror_cluster.coordination.etcd_gateway import EtcdEndpoints, EtcdGateway
from routelog.mirror_cluster.node.cluster_options import ClusterOptions


def open_coordinator(options: ClusterOptions) -> EtcdCoordinator:
    """Connects when it is asked something; close it."""
    tls = options.etcd_tls
    seconds = options.lease_seconds
    endpoints = EtcdEndpoints(
        options.etcd, options.etcd_user, options.etcd_password, tls, request_seconds=seconds / 2
    )
    return EtcdCoordinator(EtcdGateway(endpoints), f"/routelog/{options.name}", seconds)
