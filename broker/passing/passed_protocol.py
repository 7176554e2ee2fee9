"""What a node that passes clients on has to know of their protocol."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


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
