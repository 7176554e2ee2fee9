"""Addresses of clients: who is on the broker's own machine, as `guest` has to be, and who counts as one
source.
"""

from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv6Address, ip_address, ip_network

# RabbitMQ's, which everybody knows
DEFAULT_USER = "guest"
DEFAULT_PASSWORD = b"guest"


@dataclass(frozen=True, slots=True)
class LoopbackRule:
    """Who has to be local.

    Attributes:
        users: by name.
        default_password: whether the same holds for everybody who shows DEFAULT_PASSWORD.
    """

    users: Collection[str]
    default_password: bool = False

    def allows(self, user: str, peer_address: str | None, password: bytes = b"") -> bool:
        """Tell whether `user` may log in from `peer_address`.

        Args:
            peer_address: see `is_local`.
            password: that the user has shown; empty: none.
        """
        return is_local(peer_address) or not self.holds_for(user, password)

    def holds_for(self, user: str, password: bytes) -> bool:
        """Tell whether a user with this password has to be local."""
        return user in self.users or (self.default_password and password == DEFAULT_PASSWORD)


@lru_cache(1_024)
def is_local(peer_address: str | None) -> bool:
    """Tell whether somebody is on the broker's own machine.

    Args:
        peer_address: the peer's end of the socket as the kernel gives it (never the address of
            the listener): an IP address, or for a Unix socket its path, which is empty for an
            unnamed peer. None: the peer is unknown; it counts as remote.
    """
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


PREFIX_V6 = 64  # bits: a host with one IPv6 address usually has 2^64 of them
KNOWN_MAX = 1_024  # addresses; about 300 bytes each


@lru_cache(KNOWN_MAX)
def source_of(peer: str | None) -> str:
    """The IPv4 address, or the IPv6 network of 64 bits, of a client.

    Args:
        peer: its address; None or a path: a Unix socket. All Unix sockets are one source, "".
    """
    try:
        address = ip_address(peer or "")
    except ValueError:
        return ""
    if not isinstance(address, IPv6Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ip_network((int(address), PREFIX_V6), strict=False))
