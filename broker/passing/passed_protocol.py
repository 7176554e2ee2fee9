"""What a node that passes clients on has to know of their protocol."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import msgspec

REQUEST_BYTES_MAX = 65_536  # of the head of a request
RETRY_SECONDS = 1


class Refusal(Protocol):
    """Answers a client until it has been told why it is not passed on.

    Attributes:
        is_over: there is nothing to say any more: the connection is to be closed.
    """

    is_over: bool

    def take(self, data: bytes) -> bytes:
        """Take what came from the client; returns what it is to be sent."""


class Farewell(Protocol):
    """Follows what the leader sends to one client, and says goodbye where the protocol allows it."""

    @property
    def can_close(self) -> bool:
        """Whether the client may be told now: the leader has not said it, nor half a frame."""

    def follow(self, data: bytes) -> None:
        """Follow what was sent next."""

    def goodbye(self, reason: str) -> bytes:
        """The bytes that close the connection."""

    def is_answer(self, data: bytes) -> bool:
        """Whether bytes of the client end with its answer to the goodbye."""


@dataclass(frozen=True, slots=True)
class PassedProtocol:
    """A protocol.

    Attributes:
        refusal: made of the reason, for a client that no leader has heard of.
        farewell: made for each client; None: the protocol has no word for an end.
    """

    refusal: Callable[[str], Refusal]
    farewell: Callable[[], Farewell] | None = None


class HttpRefusal:
    """503, with the reason as the HTTP API gives it."""

    def __init__(self, reason: str) -> None:
        self.is_over = False
        self._reason = reason
        self._received = b""

    def take(self, data: bytes) -> bytes:
        """Take what came from the client; returns what it is to be sent."""
        self._received += data
        if b"\r\n\r\n" not in self._received:
            self.is_over = len(self._received) > REQUEST_BYTES_MAX
            return b""
        self.is_over = True
        body = msgspec.json.encode({"error": "no_leader", "reason": self._reason})
        head = (
            "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nRetry-After: {RETRY_SECONDS}\r\n"
            "Cache-Control: no-store\r\nConnection: close\r\n\r\n"
        )
        return head.encode() + (b"" if self._received.startswith(b"HEAD ") else body)
