import pytest

from routelog.vhosts.people.loopback import may_connect_from

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
    assert may_connect_from("guest", address, {"guest"})


@pytest.mark.parametrize("address", ["\0abstract"])
def test_an_abstract_unix_socket_is_this_machine(address: str) -> None:
    assert may_connect_from("guest", address, {"guest"})


@pytest.mark.parametrize("address", REMOTE)
def test_a_loopback_user_may_not_come_from_elsewhere(address: str | None) -> None:
    assert not may_connect_from("guest", address, {"guest"})


@pytest.mark.parametrize("address", [*LOCAL, *REMOTE])
def test_all_others_may_come_from_anywhere(address: str | None) -> None:
    assert may_connect_from("alice", address, {"guest"})
    assert may_connect_from("guest", address, set())
