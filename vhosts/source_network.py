"""Where a client comes from, as far as its share of something is concerned."""

from functools import lru_cache
from ipaddress import IPv6Address, ip_address, ip_network

PREFIX_V6 = 64  # of one customer: whoever has an IPv6 address has 2^64 of them
KNOWN_MAX = 1_024  # addresses; about 300 bytes each


@lru_cache(KNOWN_MAX)
def source_of(peer: str | None) -> str:
    """The IPv4 address, or the IPv6 network of 64 bits, of a client.

    Args:
        peer: its address; None or a path: a Unix socket. All of them are one source, called "".
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
