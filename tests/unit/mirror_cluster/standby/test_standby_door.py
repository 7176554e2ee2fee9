"""What an operator says of a standby, right and wrong."""

from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme
from support.node_certificates import node_files, node_keys

from routelog.mirror_cluster import BadClusterOption, follow_options, listen_options


@dataclass(frozen=True)
class Keys:
    """As the broker's configuration has them."""

    standby_listen: str = ""
    cluster_name: str = "orders"
    cluster_nodes: tuple[str, ...] = ()
    cluster_listen: str = ""
    cluster_secret: str = "sixteen bytes it"
    cluster_tls_certificate: str = ""
    cluster_tls_key: str = ""
    cluster_tls_authorities: str = ""
    cluster_etcd: tuple[str, ...] = ()
    cluster_etcd_user: str = ""
    cluster_etcd_password: str = ""
    cluster_min_in_sync: int = 2


def test_without_an_address_nobody_follows() -> None:
    assert listen_options(Keys(cluster_secret="")) is None


def test_both_ends_have_the_same_name_and_secret() -> None:
    ours = listen_options(Keys("[::1]:25680"))
    theirs = follow_options(Keys(), "10.0.0.1:25680")
    assert ours is not None
    assert (ours.address, theirs.address) == (("::1", 25680), ("10.0.0.1", 25680))
    assert (ours.cluster, ours.secret) == (theirs.cluster, theirs.secret)
    assert "sixteen" not in repr(ours)


def test_both_ends_have_certificates_whatever_addresses_are_in_them(tmp_path: Path) -> None:
    keys = node_keys(node_files(trustme.CA(), tmp_path, "standby.test"))
    ours, theirs = listen_options(Keys("[::1]:25680", **keys)), follow_options(Keys(**keys), "a:1")
    assert ours is not None
    assert ours.tls is not None
    assert theirs.tls is not None
    with pytest.raises(BadClusterOption, match=r"^cluster_tls_key: expected a file"):
        listen_options(Keys("[::1]:25680", **{**keys, "cluster_tls_key": ""}))


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        (Keys("a"), "standby_listen: a: expected HOST:PORT"),
        (Keys("a:1", cluster_nodes=("q@a=a:1",)), "standby_listen: not together with"),
        (Keys("a:1", cluster_secret="short"), "cluster_secret: expected 16 bytes or more"),
    ],
)
def test_what_does_not_go_together_is_told_by_its_key(keys: Keys, told: str) -> None:
    with pytest.raises(BadClusterOption) as error:
        listen_options(keys)
    assert str(error.value).startswith(told)
