import pytest

from routelog.vhosts.source_network import source_of


@pytest.mark.parametrize(
    ("peer", "source"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        (None, ""),
        ("", ""),
        ("/run/routelog.sock", ""),
    ],
)
def test_a_source_is_an_address_or_a_network_of_ipv6(peer: str | None, source: str) -> None:
    assert source_of(peer) == source
