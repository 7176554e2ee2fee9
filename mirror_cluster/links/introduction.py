"""How two nodes introduce themselves: each proves that it knows the cluster's secret, and neither tells it.

Three frames open a connection, each a `u32` of its length (little-endian) and JSON::

    dialer                                   listener
      │ ── Opening ─────────────────────────► │   who I am, whom I want, a nonce
      │ ◄──────────────── Opening and proof ─ │   who I am, my nonce, HMAC over both openings
      │ ── Proof ───────────────────────────► │   HMAC over both openings

The two proofs differ by a label, so that one cannot be sent back as the other. Whoever can read or change what
passes between the nodes is kept out by TLS alone.

Source:
    RFC 2104 (HMAC); ISO/IEC 9798-4, mutual authentication in three passes.
"""

import hmac
import struct
from dataclasses import dataclass
from enum import IntEnum
from hashlib import sha256
from typing import TypeVar

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


class Opening(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a node says of itself.

    Attributes:
        to: the node that it means to talk to.
        process: number of its process, new with each start.
        nonce: random, and never used again.
        versions: oldest and newest that it speaks.
    """

    cluster: str
    node: str
    to: str
    process: int
    purpose: int
    nonce: bytes
    versions: tuple[int, int] = VERSIONS


class _Answer(msgspec.Struct, forbid_unknown_fields=True):
    opening: Opening
    proof: bytes


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


class DialerIntroduction:
    """The side that connected.

    Args:
        secret: the cluster's; not empty.
    """

    def __init__(self, opening: Opening, secret: bytes) -> None:
        self._secret = secret
        self._own = opening
        self._first = msgspec.json.encode(opening)
        self.first = _frame(self._first)

    def answered(self, frame: bytes) -> tuple[bytes, Introduced]:
        """Check the listener's answer.

        Returns:
            What is to be sent last, and who the other end is.

        Raises:
            Stranger: it does not know the secret, or is another node.
        """
        answer = _decode(frame, _Answer)
        transcript = _transcript(self._first, answer.opening)
        _check_proof(self._secret, _LISTENER, transcript, answer.proof)
        introduced = _check(self._own, answer.opening)
        if answer.opening.purpose != self._own.purpose:
            raise Stranger(f"{introduced.node} answers for another purpose")
        proof = _Proof(_proof(self._secret, _DIALER, transcript))
        return _frame(msgspec.json.encode(proof)), introduced


class ListenerIntroduction:
    """The side that was connected to.

    Args:
        own: its own opening; whom it means, and for what, comes from the dialer.
    """

    def __init__(self, own: Opening, secret: bytes) -> None:
        self._own = own
        self._secret = secret
        self._transcript = b""
        self._introduced: Introduced | None = None

    def opened(self, frame: bytes) -> bytes:
        """Answer the dialer's opening.

        Raises:
            Stranger: it means another node or cluster.
        """
        opening = _decode(frame, Opening)
        own = msgspec.structs.replace(self._own, to=opening.node, purpose=opening.purpose)
        self._introduced = _check(own, opening)
        self._transcript = _transcript(frame, own)
        proof = _proof(self._secret, _LISTENER, self._transcript)
        return _frame(msgspec.json.encode(_Answer(own, proof)))

    def proved(self, frame: bytes) -> Introduced:
        """Check the dialer's proof.

        Raises:
            Stranger: it does not know the secret.
        """
        _check_proof(self._secret, _DIALER, self._transcript, _decode(frame, _Proof).proof)
        if self._introduced is None:
            raise Stranger("a proof before the opening")
        return self._introduced


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
    try:
        purpose = Purpose(other.purpose)
    except ValueError:
        raise Stranger(f"{other.node} connects for purpose {other.purpose}") from None
    return Introduced(other.node, other.process, purpose, version)


def _transcript(first: bytes, answer: Opening) -> bytes:
    second = msgspec.json.encode(answer)
    return _frame(first) + _frame(second)


def _proof(secret: bytes, label: bytes, transcript: bytes) -> bytes:
    return hmac.digest(secret, label + b"\0" + transcript, sha256)


def _check_proof(secret: bytes, label: bytes, transcript: bytes, proof: bytes) -> None:
    if not hmac.compare_digest(proof, _proof(secret, label, transcript)):
        raise Stranger("the other end does not know this cluster's secret")


def _frame(octets: bytes) -> bytes:
    return _LENGTH.pack(len(octets)) + octets


def _decode(frame: bytes, kind: type[_T]) -> _T:
    try:
        return msgspec.json.decode(frame, type=kind)
    except msgspec.DecodeError as error:
        raise Stranger(f"no introduction: {error}") from None
