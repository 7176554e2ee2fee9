"""The source of a client for fair shares: its IPv4 address, or its IPv6 network."""

from functools import lru_cache
from ipaddress import IPv6Address, ip_address, ip_network

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
