"""The rule that some users, `guest` above all, may log in from the broker's own machine only."""

from collections.abc import Collection
from ipaddress import IPv6Address, ip_address


def may_connect_from(user: str, peer_address: str | None, loopback_users: Collection[str]) -> bool:
    """Tell whether `user` may log in from `peer_address`.

    Args:
        peer_address: the peer's end of the socket as the kernel gives it (never the address of
            the listener): an IP address, or for a Unix socket its path, which is empty for an
            unnamed peer. None: the peer is unknown; it counts as remote.
        loopback_users: users who must be local.
    """
    return user not in loopback_users or _is_local(peer_address)


def _is_local(peer_address: str | None) -> bool:
    if peer_address is None:
        return False
    if peer_address == "" or peer_address[0] in "/\0":
        return True
    try:
        address = ip_address(peer_address)
    except ValueError:
        return False
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped.is_loopback
    return address.is_loopback
