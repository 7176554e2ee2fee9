"""How two nodes introduce themselves: each proves that it knows the cluster's secret, and neither tells it.

Four frames open a connection, each a `u32` of its length (little-endian) and JSON::

    dialer                                   listener
      │ ── Opening ─────────────────────────► │   who I am, whom I want, a nonce
      │ ◄────────────────────────── Opening ─ │   who I am, my nonce
      │ ── Proof ───────────────────────────► │   HMAC over both openings
      │ ◄──────────────────────────── Proof ─ │   HMAC over both openings

The dialer proves first: a stranger who connects gets nothing to try secrets on. The two proofs differ by a
label, so that one cannot be sent back as the other. Whoever can read or change what passes between the nodes is
kept out by TLS alone.

Source:
    RFC 2104 (HMAC); ISO/IEC 9798-4, mutual authentication in three passes: those behind the first opening.
"""

import hmac
import struct
from dataclasses import dataclass
from enum import IntEnum
from hashlib import sha256
from typing import Protocol, TypeVar

import msgspec

from routelog.mirror_cluster.node_tls import ALL_OR_NONE

VERSIONS = (1, 1)  # of what is sent behind the introduction: oldest and newest that are spoken
FRAME_BYTES_MAX = 4_096
NONCE_BYTES = 32

_T = TypeVar("_T")

_LENGTH = struct.Struct("<I")
_TLS_HANDSHAKE = b"\x16\x03"  # a record of that type, of any version (RFC 8446, section 5.1)
_LISTENER, _DIALER = b"routelog listener", b"routelog dialer"


class Stranger(Exception):
    """The other end is not who it should be; the text says why, for the log of this node."""


class Purpose(IntEnum):
    """What a connection is for."""

    REPLICATION = 1
    CLIENT = 2  # what follows the introduction is a client's bytes, and no message
    COPY = 3  # what follows is a copy of the listener's checkpoint: see `copy_format`
    FOLLOW = 4  # what follows are messages between a standby and the node that it follows
    DIGEST = 5  # what follows is the digest of the listener's data: an operator compares nodes
    REPORT = 6  # what follows is a report of the listener: an operator cannot ask etcd
    FORWARD = 7  # what follows is a session between a front and the node that leads


class Opening(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a node says of itself.

    Attributes:
        to: the node that it means to talk to.
        process: number of its process, new with each start.
        nonce: random, and never used again.
        versions: oldest and newest that it speaks.
        lease_seconds: of a node of a cluster; else 0. Nodes that do not agree when a leader has lost its place
            must not follow each other.
    """

    cluster: str
    node: str
    to: str
    process: int
    purpose: int
    nonce: bytes
    versions: tuple[int, int] = VERSIONS
    lease_seconds: float = 0


class _Proof(msgspec.Struct, forbid_unknown_fields=True):
    proof: bytes


@dataclass(frozen=True, slots=True)
class Introduced:
    """The other end, as it has proved.

    Attributes:
        version: the newest that both speak.
    """

    node: str
    process: int
    purpose: Purpose
    version: int


def take_frame(buffer: bytearray) -> bytes | None:
    """Take the first frame off a buffer; None when it is not there in full.

    Raises:
        Stranger: no frame of an introduction is so long.
    """
    if len(buffer) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack_from(buffer)
    if length > FRAME_BYTES_MAX:
        if buffer.startswith(_TLS_HANDSHAKE):
            raise Stranger(f"it speaks TLS, and this node does not: {ALL_OR_NONE}")
        raise Stranger(f"an introduction of {length:,} bytes")
    end = _LENGTH.size + length
    if len(buffer) < end:
        return None
    frame = bytes(buffer[_LENGTH.size : end])
    del buffer[:end]
    return frame


class Introduction(Protocol):
    """One side of it. The frames of the other end are given in their order."""

    def opened(self, frame: bytes) -> bytes:
        """Check the other end's opening; returns what is to be sent.

        Raises:
            Stranger: it is, or means, another node or cluster.
        """

    def proved(self, frame: bytes) -> tuple[bytes, Introduced]:
        """Check the other end's proof.

        Returns:
            What is to be sent last, maybe nothing, and who the other end is.

        Raises:
            Stranger: it does not know the secret.
        """


class DialerIntroduction:
    """The side that connected; see `Introduction`.

    Attributes:
        first: to be sent at once.

    Args:
        secret: the cluster's; not empty.
    """

    def __init__(self, opening: Opening, secret: bytes) -> None:
        self._secret = secret
        self._own = opening
        self._first = msgspec.json.encode(opening)
        self.first = _frame(self._first)
        self._transcript = b""
        self._introduced: Introduced | None = None

    def opened(self, frame: bytes) -> bytes:
        """Check the other end's opening; returns what is to be sent."""
        opening = _decode(frame, Opening)
        introduced = _check(self._own, opening)
        if opening.purpose != self._own.purpose:
            raise Stranger(f"{introduced.node} answers for another purpose")
        self._introduced = introduced
        self._transcript = self.first + _frame(frame)
        return _proof_frame(self._secret, _DIALER, self._transcript)

    def proved(self, frame: bytes) -> tuple[bytes, Introduced]:
        """Check the other end's proof."""
        return b"", _proved(frame, self._secret, _LISTENER, self._transcript, self._introduced)


class ListenerIntroduction:
    """The side that was connected to; see `Introduction`.

    Args:
        own: its own opening; whom it means, and for what, comes from the dialer.
    """

    def __init__(self, own: Opening, secret: bytes) -> None:
        self._own = own
        self._secret = secret
        self._transcript = b""
        self._introduced: Introduced | None = None

    def opened(self, frame: bytes) -> bytes:
        """Check the other end's opening; returns what is to be sent."""
        opening = _decode(frame, Opening)
        own = msgspec.structs.replace(self._own, to=opening.node, purpose=opening.purpose)
        self._introduced = _check(own, opening)
        answer = _frame(msgspec.json.encode(own))
        self._transcript = _frame(frame) + answer
        return answer

    def proved(self, frame: bytes) -> tuple[bytes, Introduced]:
        """Check the other end's proof."""
        introduced = _proved(frame, self._secret, _DIALER, self._transcript, self._introduced)
        return _proof_frame(self._secret, _LISTENER, self._transcript), introduced


def _check(own: Opening, other: Opening) -> Introduced:
    if other.cluster != own.cluster:
        raise Stranger(
            f"{other.node} is of cluster {other.cluster!r}, this node of {own.cluster!r}"
        )
    if other.to != own.node or other.node != own.to:
        raise Stranger(f"{other.node} means {other.to!r}; {own.node} means {own.to!r}")
    if len(other.nonce) != NONCE_BYTES or other.nonce == own.nonce:
        raise Stranger(f"{other.node} has no nonce of its own")
    version = min(own.versions[1], other.versions[1])
    if version < max(own.versions[0], other.versions[0]):
        raise Stranger(f"{other.node} speaks versions {other.versions}, this node {own.versions}")
    if own.lease_seconds and other.lease_seconds not in (0, own.lease_seconds):
        theirs, ours = f"{other.lease_seconds:g}", f"{own.lease_seconds:g}"
        text = f"{other.node} has cluster_lease_seconds = {theirs}, this node {ours}"
        raise Stranger(f"{text}: all nodes of a cluster have the same")
    try:
        purpose = Purpose(other.purpose)
    except ValueError:
        raise Stranger(f"{other.node} connects for purpose {other.purpose}") from None
    return Introduced(other.node, other.process, purpose, version)


def _proof(secret: bytes, label: bytes, transcript: bytes) -> bytes:
    return hmac.digest(secret, label + b"\0" + transcript, sha256)


def _proof_frame(secret: bytes, label: bytes, transcript: bytes) -> bytes:
    return _frame(msgspec.json.encode(_Proof(_proof(secret, label, transcript))))


def _proved(
    frame: bytes, secret: bytes, label: bytes, transcript: bytes, introduced: Introduced | None
) -> Introduced:
    if introduced is None:
        raise Stranger("a proof before the opening")
    if not hmac.compare_digest(_decode(frame, _Proof).proof, _proof(secret, label, transcript)):
        raise Stranger("the other end does not know this cluster's secret")
    return introduced


def _frame(octets: bytes) -> bytes:
    return _LENGTH.pack(len(octets)) + octets


def _decode(frame: bytes, kind: type[_T]) -> _T:
    try:
        return msgspec.json.decode(frame, type=kind)
    except msgspec.DecodeError as error:
        raise Stranger(f"no introduction: {error}") from None
