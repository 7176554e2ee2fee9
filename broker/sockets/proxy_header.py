"""The PROXY protocol: what a load balancer says first of the client whose bytes it passes on.

    version 1:  PROXY TCP4 192.0.2.7 198.51.100.1 40312 5672\\r\\n            at most 107 bytes
    version 2:  signature (12) | version and command (1) | family (1) | length (2) | addresses, TLVs

Version 2 is also what a node of a cluster says of a client of HTTP that it passes on, without an address of its
own; if the client came over TLS, with that TLV, 0x20.

Source: The PROXY protocol, versions 1 & 2, section 2 (haproxy.org).
"""

import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from ipaddress import ip_address

SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"
LINE_START = b"PROXY "
LINE_BYTES_MAX = 107  # of version 1, as its specification counts
BLOCK_BYTES_MAX = 4_096  # of version 2 behind the first 16: addresses take 36, TLVs the rest

_HEAD = struct.Struct(">BBH")  # version and command, family and protocol, length
_LOCAL, _PROXIED = 0x20, 0x21
_BLOCKS = {0x11: struct.Struct(">4s4sHH"), 0x21: struct.Struct(">16s16sHH")}

# Type u8, length u16; flags u8 (1: it came over TLS), u32 (not 0: without a certificate)
_TLS = struct.pack(">BHBI", 0x20, 5, 1, 1)

Receive = Callable[[int], Awaitable[bytes]]  # up to so many bytes; empty at the end


# A client of whom the proxy does not say where it is. It must not count as the proxy, which is often on this
# machine: who has to be local is not.
UNKNOWN = "0.0.0.0"


class MalformedProxyHeader(Exception):
    """What came first is no PROXY header; the text says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One end of a connection.

    Attributes:
        address: IPv4 or IPv6.
    """

    address: str
    port: int


@dataclass(frozen=True, slots=True)
class PassedClient(Endpoint):
    """The client of another node of the cluster, as that node tells it.

    Attributes:
        is_tls: whether nobody between it and the node can read along.
    """

    is_tls: bool = False


async def proxied_client(receive: Receive, proxy_port: int) -> Endpoint:
    """Take a PROXY header from a socket, and not a byte more.

    Args:
        proxy_port: the proxy's end of the socket.

    Returns:
        The client; where the proxy speaks for itself, or cannot say for whom, UNKNOWN with the proxy's port.

    Raises:
        MalformedProxyHeader: there is none, or it is cut off.
    """
    line = await _exactly(receive, len(LINE_START))
    if line == SIGNATURE[: len(line)]:
        line += await _exactly(receive, len(SIGNATURE) - len(line))
        if line == SIGNATURE:
            return await _version_2(receive) or Endpoint(UNKNOWN, proxy_port)
    if line != LINE_START:
        raise MalformedProxyHeader("the proxy sent no PROXY header")
    while not line.endswith(b"\r\n"):
        if len(line) >= LINE_BYTES_MAX:
            raise MalformedProxyHeader(f"a PROXY line of more than {LINE_BYTES_MAX} bytes")
        line += await _exactly(receive, 1)
    return _version_1(line) or Endpoint(UNKNOWN, proxy_port)


def _version_1(line: bytes) -> Endpoint | None:
    words = line.decode("ascii", "replace").rstrip("\r\n").split(" ")
    if words[1] == "UNKNOWN":
        return None
    if len(words) != 6 or words[1] not in ("TCP4", "TCP6"):
        raise MalformedProxyHeader("a PROXY line of another form")
    version = 4 if words[1] == "TCP4" else 6
    try:
        source, target = ip_address(words[2]), ip_address(words[3])
        ports = [int(word) for word in words[4:] if word.isdecimal() and len(word) <= 5]
    except ValueError:
        raise MalformedProxyHeader("a PROXY line without addresses") from None
    if (source.version, target.version) != (version, version):
        raise MalformedProxyHeader("addresses of another family than the PROXY line says")
    if len(ports) != 2 or max(ports) > 0xFFFF:
        raise MalformedProxyHeader("a PROXY line without ports")
    return Endpoint(str(source), ports[0])


async def _version_2(receive: Receive) -> Endpoint | None:
    command, family, length = _HEAD.unpack(await _exactly(receive, _HEAD.size))
    if command not in (_LOCAL, _PROXIED):
        raise MalformedProxyHeader(f"PROXY version and command 0x{command:02x}")
    if length > BLOCK_BYTES_MAX:
        raise MalformedProxyHeader(f"a PROXY header of {length} bytes")
    block = await _exactly(receive, length)
    layout = _BLOCKS.get(family)
    if command == _LOCAL or layout is None:
        return None
    if length < layout.size:
        raise MalformedProxyHeader("a PROXY header shorter than its addresses")
    source, _, port, _ = layout.unpack_from(block)
    return Endpoint(str(ip_address(source)), port)


async def _exactly(receive: Receive, count: int) -> bytes:
    taken = b""
    while len(taken) < count:
        more = await receive(count - len(taken))
        if not more:
            raise MalformedProxyHeader("the connection ended inside the PROXY header")
        taken += more
    return taken


# -- between the nodes of a cluster


def passed_header(client: PassedClient) -> bytes:
    """The header of a client that is passed on."""
    source = ip_address(client.address.partition("%")[0])
    family = 0x11 if source.version == 4 else 0x21
    nowhere = bytes(len(source.packed))
    block = _BLOCKS[family].pack(source.packed, nowhere, client.port, 0)
    if client.is_tls:
        block += _TLS
    return SIGNATURE + _HEAD.pack(_PROXIED, family, len(block)) + block


def take_passed_header(received: bytes) -> tuple[PassedClient, int] | None:
    """Read the header of a client that is passed on.

    Returns:
        The client, and the bytes of the header; None: it is not there in full.

    Raises:
        MalformedProxyHeader: it is none.
    """
    start = len(SIGNATURE) + _HEAD.size
    if received[: len(SIGNATURE)] != SIGNATURE[: len(received)]:
        raise MalformedProxyHeader("no PROXY header of version 2")
    if len(received) < start:
        return None
    command, family, length = _HEAD.unpack_from(received, len(SIGNATURE))
    layout = _BLOCKS.get(family)
    if command != _PROXIED or layout is None:
        raise MalformedProxyHeader("a PROXY header that names no client")
    if not layout.size <= length <= layout.size + len(_TLS):
        raise MalformedProxyHeader(f"a PROXY header of {length} bytes")
    if len(received) < start + length:
        return None
    source, _, port, _ = layout.unpack_from(received, start)
    rest = received[start + layout.size : start + length]
    if rest not in (b"", _TLS):
        raise MalformedProxyHeader("a PROXY header of another form")
    return PassedClient(str(ip_address(source)), port, bool(rest)), start + length
