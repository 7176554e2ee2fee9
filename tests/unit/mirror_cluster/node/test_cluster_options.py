"""What an operator says of a cluster, right and wrong."""

from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import trustme
from support.node_certificates import node_files, node_keys

from routelog.mirror_cluster import BadClusterOption, cluster_options


@dataclass(frozen=True)
class Keys:
    """As the broker's configuration has them."""

    cluster_name: str = "orders"
    cluster_nodes: tuple[str, ...] = ("q@a=10.0.0.1:25672", "q@b=[::1]:25672", "q@c=c:25682")
    cluster_listen: str = ""
    cluster_secret: str = "sixteen bytes it"
    cluster_tls_certificate: str = ""
    cluster_tls_key: str = ""
    cluster_tls_authorities: str = ""
    cluster_etcd: tuple[str, ...] = ("managed",)
    cluster_etcd_user: str = ""
    cluster_etcd_password: str = ""
    cluster_min_in_sync: int = 2
    cluster_lease_seconds: int = 2
    cluster_confirm_seconds: float = 10.0
    on_leader: tuple[str, ...] = ()


KEYS = Keys()


def test_without_nodes_there_is_no_cluster() -> None:
    assert cluster_options(replace(KEYS, cluster_nodes=()), "q@a") is None


def test_each_node_runs_its_etcd_at_the_port_behind_its_own() -> None:
    found = cluster_options(KEYS, "q@b")
    assert found is not None
    assert found.is_managed
    assert found.etcd == ["https://10.0.0.1:25673", "https://[::1]:25673", "https://c:25683"]
    assert found.tls is None
    assert found.etcd_tls is found.authority is not None
    assert found.listen == ("::1", 25672)
    assert found.addresses["q@c"] == "c:25682"
    assert "sixteen" not in repr(found)


def test_with_a_certificate_the_managed_etcd_speaks_tls(tmp_path: Path) -> None:
    files = node_files(trustme.CA(), tmp_path, "::1")
    found = cluster_options(replace(KEYS, **node_keys(files)), "q@b")
    assert found is not None
    assert found.tls is not None
    assert found.tls.files == files
    assert (found.etcd_tls, found.authority) == (found.tls, None)
    assert found.etcd == ["https://10.0.0.1:25673", "https://[::1]:25673", "https://c:25683"]
    assert found.etcd_peers[1] == "https://[::1]:25674"
    with pytest.raises(BadClusterOption, match=r"^cluster_tls_certificate: .* not valid for 'c'"):
        cluster_options(replace(KEYS, **node_keys(files)), "q@c")


@pytest.mark.parametrize(
    "missing", ["cluster_tls_certificate", "cluster_tls_key", "cluster_tls_authorities"]
)
def test_one_file_of_three_is_missing(missing: str) -> None:
    files = dict.fromkeys(
        ("cluster_tls_certificate", "cluster_tls_key", "cluster_tls_authorities"), "a.pem"
    )
    with pytest.raises(BadClusterOption, match=f"^{missing}: expected a file: .* go together"):
        cluster_options(replace(KEYS, **{**files, missing: ""}), "q@a")


def test_an_etcd_of_the_operator_may_serve_two_nodes() -> None:
    keys = replace(
        KEYS,
        cluster_nodes=KEYS.cluster_nodes[:2],
        cluster_etcd=("https://etcd:2379/", "http://other:2379"),
        cluster_listen="0.0.0.0:1",
        cluster_etcd_user="root",
        cluster_etcd_password="x",
    )
    found = cluster_options(keys, "q@a")
    assert found is not None
    assert (found.etcd, found.is_managed) == (["https://etcd:2379", "http://other:2379"], False)
    assert found.listen == ("0.0.0.0", 1)
    assert found.etcd_tls is None


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"cluster_nodes": ("q@b=b:1", "q@c=c:1")}, "cluster_nodes: this node, q@a, is not among"),
        ({"cluster_nodes": ("q@a=a:1", "q@a=c:1")}, "cluster_nodes: q@a=c:1: its name or address"),
        ({"cluster_nodes": ("q@a=a:1", "q@b=a:1")}, "cluster_nodes: q@b=a:1: its name or address"),
        ({"cluster_nodes": ("q@a=a:65536",)}, "cluster_nodes: a:65536: expected HOST:PORT"),
        (
            {"cluster_nodes": ("q@a=\xfc:1", "q@b=b:1", "q@c=c:1")},
            "cluster_nodes: \xfc: DNSName values should be passed as an A-label",
        ),
        ({"cluster_listen": "25672"}, "cluster_listen: 25672: expected HOST:PORT"),
        ({"cluster_secret": "short"}, "cluster_secret: expected 16 bytes or more"),
        ({"cluster_etcd": ()}, "cluster_etcd: expected URLs of an etcd"),
        ({"cluster_etcd": ("etcd:2379",)}, "cluster_etcd: expected http://HOST:PORT"),
        ({"cluster_etcd": ("managed", "http://a:1")}, 'cluster_etcd: either "managed" alone'),
        (
            {"cluster_nodes": KEYS.cluster_nodes[:2]},
            'cluster_etcd: "managed" needs three nodes',
        ),
        (
            {"cluster_etcd": ("http://a:1",), "cluster_etcd_password": "x"},
            "cluster_etcd_user: there is a password",
        ),
        ({"cluster_min_in_sync": 4}, "cluster_min_in_sync: there are only 3 nodes"),
        (
            {"cluster_lease_seconds": 8},
            "cluster_confirm_seconds: expected 12 or more, as cluster_lease_seconds is 8",
        ),
    ],
)
def test_what_does_not_go_together_is_told_by_its_key(wrong: dict, told: str) -> None:
    with pytest.raises(BadClusterOption) as error:
        cluster_options(replace(KEYS, **wrong), "q@a")
    assert str(error.value).startswith(told)
    assert "short" not in str(error.value)
