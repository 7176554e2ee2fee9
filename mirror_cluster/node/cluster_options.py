"""What an operator says of a cluster, checked as a whole."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from routelog.mirror_cluster.coordination.etcd_coordinator import EtcdCoordinator
from routelog.mirror_cluster.coordination.etcd_gateway import EtcdEndpoints, EtcdGateway, EtcdTls
from routelog.mirror_cluster.node_tls import NodeTls, TlsFiles, TlsUnusable
from routelog.mirror_cluster.replica.settings import LAG_LEASES

if TYPE_CHECKING:
    from routelog.mirror_cluster.secret_authority import SecretAuthority

MANAGED = "managed"
SECRET_BYTES_MIN = 16
MANAGED_NODES_MIN = 3  # of two members, none may fail
# A managed etcd is reached at the port behind that of the node; its other members, at the one behind that.
ETCD_PORT_STEP, ETCD_PEER_PORT_STEP = 1, 2


class BadClusterOption(Exception):
    """A key whose value does not go with the others; the text begins with the key."""


class ClusterKeys(Protocol):
    """The keys of a configuration that tell of a cluster."""

    @property
    def cluster_name(self) -> str:
        """Of the cluster: nodes of another one are refused."""

    @property
    def cluster_nodes(self) -> Sequence[str]:
        """All nodes, each as `NAME=HOST:PORT`."""

    @property
    def cluster_listen(self) -> str:
        """Where this node listens for the others, if that is not its address."""

    @property
    def cluster_secret(self) -> str:
        """What all nodes know, and nobody else."""

    @property
    def cluster_tls_certificate(self) -> str:
        """A PEM file; empty: connections between nodes have no TLS, and etcd has that of the secret."""

    @property
    def cluster_tls_key(self) -> str:
        """PEM file with the key of this node's certificate."""

    @property
    def cluster_tls_authorities(self) -> str:
        """A PEM file: who signs the certificates of all nodes."""

    @property
    def cluster_etcd(self) -> Sequence[str]:
        """URLs, or `managed` alone."""

    @property
    def cluster_etcd_user(self) -> str:
        """User of etcd; empty: none."""

    @property
    def cluster_etcd_password(self) -> str:
        """Password of the user of etcd."""

    @property
    def cluster_min_in_sync(self) -> int:
        """Copies that a confirmed message has at least."""

    @property
    def cluster_lease_seconds(self) -> int:
        """A leader that is cut off is replaced after this."""

    @property
    def cluster_confirm_seconds(self) -> float:
        """What waits for copies for so long is refused."""

    @property
    def on_leader(self) -> Sequence[str]:
        """A program to be told who leads; empty: none."""


@dataclass(frozen=True)
class ClusterOptions:
    """A cluster as its operator wants it.

    Attributes:
        node: this one's name; empty for a command that is no node.
        addresses: `HOST:PORT` of each node, by name.
        listen: host and port.
        tls: between nodes, and with etcd; None: there is none between nodes.
        etcd: URLs of all members.
        etcd_peers: of a managed one, where members reach each other, in the order of the addresses; else none.
        authority: of a managed etcd without `tls`.
        lease_seconds: the same on all nodes; docs/internals/mirroring.md has what goes by it.
        on_leader: see `LeaderHook`.
    """

    name: str
    node: str
    addresses: Mapping[str, str]
    listen: tuple[str, int]
    secret: bytes = field(repr=False)
    tls: NodeTls | None
    etcd: Sequence[str]
    etcd_peers: Sequence[str]
    etcd_user: str
    etcd_password: str = field(repr=False)
    min_in_sync: int
    authority: "SecretAuthority | None" = None
    lease_seconds: int = 2
    on_leader: Sequence[str] = ()

    @property
    def is_managed(self) -> bool:
        """Each node runs a member of etcd."""
        return bool(self.etcd_peers)

    @property
    def etcd_tls(self) -> EtcdTls | None:
        """With etcd; None: there is none."""
        return self.tls or self.authority


def cluster_options(keys: ClusterKeys, node: str) -> ClusterOptions | None:
    """Check the keys of a cluster.

    Args:
        node: this one's full name.

    Returns:
        None: there are no `cluster_nodes`, so this node runs on its own.

    Raises:
        BadClusterOption: the first one that cannot be used, or a file that it names.
    """
    if not keys.cluster_nodes:
        return None
    addresses = _addresses(keys.cluster_nodes)
    if node not in addresses:
        names = ", ".join(addresses)
        raise BadClusterOption(f"cluster_nodes: this node, {node}, is not among {names}")
    secret = checked_secret(keys.cluster_secret)
    if keys.cluster_min_in_sync > len(addresses):
        raise BadClusterOption(f"cluster_min_in_sync: there are only {len(addresses)} nodes")
    confirm_seconds_min = LAG_LEASES * keys.cluster_lease_seconds
    if keys.cluster_confirm_seconds < confirm_seconds_min:
        lease = f"cluster_lease_seconds is {keys.cluster_lease_seconds}"
        told = f"expected {confirm_seconds_min:g} or more, as {lease}"
        raise BadClusterOption(f"cluster_confirm_seconds: {told}")
    host = host_and_port("cluster_nodes", addresses[node])[0]
    tls = node_tls(keys, host)
    is_managed = MANAGED in keys.cluster_etcd
    etcd = _managed_etcd(keys, addresses) if is_managed else _etcd(keys)
    has_authority = is_managed and tls is None
    return ClusterOptions(
        keys.cluster_name,
        node,
        addresses,
        host_and_port("cluster_listen", keys.cluster_listen or addresses[node]),
        secret,
        tls,
        etcd,
        _ports_behind(addresses, ETCD_PEER_PORT_STEP) if is_managed else [],
        keys.cluster_etcd_user,
        keys.cluster_etcd_password,
        keys.cluster_min_in_sync,
        _authority(secret, keys.cluster_name, host) if has_authority else None,
        keys.cluster_lease_seconds,
        keys.on_leader,
    )


def checked_secret(text: str) -> bytes:
    """The bytes of a secret.

    Raises:
        BadClusterOption: it is too short.
    """
    secret = text.encode()
    if len(secret) < SECRET_BYTES_MIN:
        raise BadClusterOption(f"cluster_secret: expected {SECRET_BYTES_MIN} bytes or more")
    return secret


def node_tls(keys: ClusterKeys, host: str | None) -> NodeTls | None:
    """The certificate of this node, when there is one.

    Args:
        host: see `NodeTls`.

    Raises:
        BadClusterOption: a file cannot be used, or one is missing.
    """
    files = {
        "cluster_tls_certificate": keys.cluster_tls_certificate,
        "cluster_tls_key": keys.cluster_tls_key,
        "cluster_tls_authorities": keys.cluster_tls_authorities,
    }
    missing = [key for key, file in files.items() if not file]
    if len(missing) == len(files):
        return None
    if missing:
        raise BadClusterOption(f"{missing[0]}: expected a file: {', '.join(files)} go together")
    try:
        return NodeTls(TlsFiles(*map(Path, files.values())), host)
    except TlsUnusable as error:
        raise BadClusterOption(str(error)) from None


def _addresses(entries: Sequence[str]) -> dict[str, str]:
    addresses: dict[str, str] = {}
    for entry in entries:
        name, _, address = entry.partition("=")
        host_and_port("cluster_nodes", address)
        if name in addresses or address in addresses.values():
            raise BadClusterOption(f"cluster_nodes: {entry}: its name or address is there twice")
        addresses[name] = address
    return addresses


def host_and_port(key: str, address: str) -> tuple[str, int]:
    """Take an address apart.

    Raises:
        BadClusterOption: it is none; the text begins with the key.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65_536:
        raise BadClusterOption(f"{key}: {address or 'nothing'}: expected HOST:PORT")
    return host.strip("[]"), int(port)


def _managed_etcd(keys: ClusterKeys, addresses: Mapping[str, str]) -> list[str]:
    if len(keys.cluster_etcd) > 1:
        raise BadClusterOption('cluster_etcd: either "managed" alone or URLs')
    if len(addresses) < MANAGED_NODES_MIN:
        raise BadClusterOption('cluster_etcd: "managed" needs three nodes: give URLs of an etcd')
    return _ports_behind(addresses, ETCD_PORT_STEP)


def _ports_behind(addresses: Mapping[str, str], step: int) -> list[str]:
    parts = (address.rpartition(":") for address in addresses.values())
    return [f"https://{host}:{int(port) + step}" for host, _, port in parts]


def _authority(secret: bytes, cluster: str, host: str) -> "SecretAuthority":
    # Here: a node without a managed etcd does without the library, which takes 70 ms and 9 MB.
    from routelog.mirror_cluster.secret_authority import SecretAuthority

    try:
        return SecretAuthority(secret, cluster, host)
    except ValueError as error:
        raise BadClusterOption(f"cluster_nodes: {host}: {error}") from None


def _etcd(keys: ClusterKeys) -> list[str]:
    if not keys.cluster_etcd:
        raise BadClusterOption('cluster_etcd: expected URLs of an etcd, or "managed"')
    for url in keys.cluster_etcd:
        if not url.startswith(("http://", "https://")):
            raise BadClusterOption("cluster_etcd: expected http://HOST:PORT or https://HOST:PORT")
    if keys.cluster_etcd_password and not keys.cluster_etcd_user:
        raise BadClusterOption("cluster_etcd_user: there is a password, and nobody to have it")
    return [url.rstrip("/") for url in keys.cluster_etcd]


def open_coordinator(options: ClusterOptions) -> EtcdCoordinator:
    """Connects when it is asked something; close it."""
    tls = options.etcd_tls
    seconds = options.lease_seconds
    endpoints = EtcdEndpoints(
        options.etcd, options.etcd_user, options.etcd_password, tls, request_seconds=seconds / 2
    )
    return EtcdCoordinator(EtcdGateway(endpoints), f"/routelog/{options.name}", seconds)
