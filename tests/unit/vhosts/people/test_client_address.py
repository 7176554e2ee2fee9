import pytest

from routelog.vhosts.people.client_address import DEFAULT_PASSWORD, LoopbackRule, source_of

GUEST = LoopbackRule({"guest"})

LOCAL = ["127.0.0.1", "127.8.9.10", "::1", "::ffff:127.0.0.1", "::ffff:7f00:1", "", "/run/x.sock"]
REMOTE = [
    "10.0.0.1",
    "128.0.0.1",
    "0.0.0.0",
    "::",
    "::2",
    "::ffff:10.0.0.1",
    "::127.0.0.1",  # the old "compatible" form is not loopback
    "fe80::1%eth0",
    "64:ff9b::7f00:1",
    "127.1",  # short forms are for people, the kernel gives none
    "localhost",
    "127.0.0.1.example.org",
    " 127.0.0.1",
    None,
]


@pytest.mark.parametrize("address", LOCAL)
def test_a_loopback_user_may_come_from_this_machine(address: str) -> None:
    assert GUEST.allows("guest", address)


@pytest.mark.parametrize("address", ["\0abstract"])
def test_an_abstract_unix_socket_is_this_machine(address: str) -> None:
    assert GUEST.allows("guest", address)


@pytest.mark.parametrize("address", REMOTE)
def test_a_loopback_user_may_not_come_from_elsewhere(address: str | None) -> None:
    assert not GUEST.allows("guest", address)


@pytest.mark.parametrize("address", [*LOCAL, *REMOTE])
def test_all_others_may_come_from_anywhere(address: str | None) -> None:
    assert GUEST.allows("alice", address, DEFAULT_PASSWORD)
    assert LoopbackRule(()).allows("guest", address, DEFAULT_PASSWORD)


@pytest.mark.parametrize("address", [*LOCAL, *REMOTE])
def test_who_has_the_built_in_password_has_to_be_local(address: str | None) -> None:
    rule = LoopbackRule({"guest"}, default_password=True)
    assert rule.allows("admin", address, DEFAULT_PASSWORD) is (address in LOCAL)
    assert rule.allows("admin", address, b"another")
    assert rule.allows("admin", address)  # by a certificate


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
