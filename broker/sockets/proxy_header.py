"""The PROXY protocol: what a load balancer says first of the client whose bytes it passes on.

    version 1:  PROXY TCP4 192.0.2.7 198.51.100.1 40312 5672\\r\\n            at most 107 bytes
    version 2:  signature (12) | version and command (1) | family (1) | length (2) | addresses, TLVs

Version 2 is also what a node of a cluster says of a client that it passes on, with these TLVs:

    TLV    type u8 | length u16 | value                                       big-endian
    0x01   the protocol of the client: amqp, http/1.1
    0x20   flags u8 (1: the client came over TLS) | verified u32 (0: it has shown a certificate)
    0xE0   of a verified certificate, JSON: {"subject": ..., "subjectAltName": ...} of `SSLSocket.getpeercert`

Source: The PROXY protocol, versions 1 & 2, section 2 (haproxy.org).
"""

import struct
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import Any

import msgspec

SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"
LINE_START = b"PROXY "
LINE_BYTES_MAX = 107  # of version 1, as its specification counts
BLOCK_BYTES_MAX = 4_096  # of version 2 behind the first 16: addresses take 36, TLVs the rest

_HEAD = struct.Struct(">BBH")  # version and command, family and protocol, length
_LOCAL, _PROXIED = 0x20, 0x21
_BLOCKS = {0x11: struct.Struct(">4s4sHH"), 0x21: struct.Struct(">16s16sHH")}

AMQP, HTTP = "amqp", "http/1.1"  # as IANA registers them for ALPN
_ALPN, _TLS, _CERTIFICATE = 0x01, 0x20, 0xE0
_TLV = struct.Struct(">BH")
_TLS_VALUE = struct.Struct(">BI")
_OVER_TLS, _UNVERIFIED = 1, 1
_UNIX = 0x31  # of two paths, which are empty here: 108 bytes each
_UNIX_BYTES = 216
_LENGTH_MAX = 65_535

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
        address: empty: it came over a Unix socket.
        own: the node's end of its socket.
        door: the protocol that it is to speak: AMQP or HTTP.
        is_tls: whether nobody between it and the node can read along.
        certificate: what it proved to be its own; None: none.
    """

    own: Endpoint
    door: str
    is_tls: bool = False
    certificate: Mapping[str, Any] | None = None


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
    """The header of a client that is passed on.

    Raises:
        ValueError: its certificate has too many names.
    """
    family, block = _addresses(client)
    block += _tlv(_ALPN, client.door.encode())
    if client.is_tls:
        unverified = _UNVERIFIED if client.certificate is None else 0
        block += _tlv(_TLS, _TLS_VALUE.pack(_OVER_TLS, unverified))
    if client.certificate is not None:
        names = {key: client.certificate.get(key, ()) for key in ("subject", "subjectAltName")}
        block += _tlv(_CERTIFICATE, msgspec.json.encode(names))
    if len(block) > _LENGTH_MAX:
        raise _too_long(block)
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
    if command != _PROXIED or family not in (*_BLOCKS, _UNIX):
        raise MalformedProxyHeader("a PROXY header that names no client")
    if len(received) < start + length:
        return None
    try:
        return _passed_client(family, received[start : start + length]), start + length
    except (struct.error, ValueError, KeyError) as error:
        raise MalformedProxyHeader(f"a PROXY header of another form: {error!r}") from None


def _addresses(client: PassedClient) -> tuple[int, bytes]:
    if not client.address:
        return _UNIX, bytes(_UNIX_BYTES)
    ends = [ip_address(end.address.partition("%")[0]) for end in (client, client.own)]
    ports = client.port, client.own.port
    if all(end.version == 4 for end in ends):
        return 0x11, _BLOCKS[0x11].pack(*(end.packed for end in ends), *ports)
    packed = (end.packed.rjust(6, b"\xff").rjust(16, b"\0") for end in ends)
    return 0x21, _BLOCKS[0x21].pack(*packed, *ports)


def _passed_client(family: int, block: bytes) -> PassedClient:
    client, own, at = Endpoint("", 0), Endpoint("", 0), _UNIX_BYTES
    if family != _UNIX:
        layout = _BLOCKS[family]
        addresses = layout.unpack_from(block)
        client, own = (Endpoint(_text(addresses[i]), addresses[i + 2]) for i in (0, 1))
        at = layout.size
    values = dict(_tlvs(block, at))
    is_tls = _TLS in values and bool(_TLS_VALUE.unpack(values[_TLS])[0] & _OVER_TLS)
    certificate = msgspec.json.decode(values[_CERTIFICATE]) if _CERTIFICATE in values else None
    door = values[_ALPN].decode()
    return PassedClient(client.address, client.port, own, door, is_tls, certificate)


def _text(packed: bytes) -> str:
    address = ip_address(packed)
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address)


def _tlv(kind: int, value: bytes) -> bytes:
    if len(value) > _LENGTH_MAX:
        raise _too_long(value)
    return _TLV.pack(kind, len(value)) + value


def _too_long(names: bytes) -> ValueError:
    return ValueError(f"its certificate has names of {len(names):,} bytes")


def _tlvs(block: bytes, at: int) -> Iterator[tuple[int, bytes]]:
    while at < len(block):
        kind, length = _TLV.unpack_from(block, at)
        at += _TLV.size + length
        if at > len(block):
            raise ValueError("a TLV that is cut off")
        yield kind, block[at - length : at]
