"""The sockets of clients, from accept to close, and how many there may be: each is an open file.

When there are too many, one that has not logged in makes room: of the address that has most of those, the one
that came first. So whoever opens many drops his own, and who has just come has time to log in.
"""

import logging
import socket
from collections.abc import Callable
from dataclasses import dataclass

from routelog.vhosts import source_of

log = logging.getLogger(__name__)

WARN_SECONDS = 10.0  # one line for each of a flood would be a flood of the log


@dataclass(frozen=True, slots=True)
class SocketLimits:
    """How many sockets there may be at a time.

    Attributes:
        all: of clients, logged in or not.
        unauthenticated: of those that have not logged in.
    """

    all: int
    unauthenticated: int


class AcceptedSocket:
    """A client's socket.

    Attributes:
        handle: the socket itself; it may be closed.
        source: where the client is, see `source_of`.
        drop: closes it at once; set anew by whoever owns the socket.
        taken, idle_looks: see `StalledSockets`.
    """

    __slots__ = ("_sockets", "drop", "handle", "idle_looks", "source", "taken")

    def __init__(self, sockets: "AcceptedSockets", handle: socket.socket, source: str) -> None:
        self._sockets = sockets
        self.handle = handle
        self.source = source
        self.drop: Callable[[], object] = handle.close
        self.taken = -1
        self.idle_looks = 0

    def comes_from(self, peer: str) -> None:
        """A proxy has told whom it speaks for."""
        self._sockets.moved(self, source_of(peer))

    def authenticated(self) -> None:
        """The client has proved who it is: its socket makes room for no other any more."""
        self._sockets.authenticated(self)

    def closed(self) -> None:
        """The socket is closed; it may be said more than once."""
        self._sockets.closed(self)


class AcceptedSockets:
    """All sockets of one protocol, whichever of its ports they came in by.

    Args:
        protocol: its name, for the log.
        now: a clock that does not go back, in seconds.
    """

    def __init__(self, protocol: str, limits: SocketLimits, now: Callable[[], float]) -> None:
        self._protocol = protocol
        self.limits = limits
        self._now = now
        self._open_sockets: set[AcceptedSocket] = set()
        self._unauthenticated = 0
        self._by_source: dict[
            str, dict[AcceptedSocket, None]
        ] = {}  # those of them, the oldest first
        self._warn_at = float("-inf")
        self._unsaid = 0  # sockets that were dropped since the last warning

    def __len__(self) -> int:
        return len(self._open_sockets)

    def all(self) -> list[AcceptedSocket]:
        """Those that are open."""
        return list(self._open_sockets)

    def admit(self, handle: socket.socket, peer: str | None) -> AcceptedSocket | None:
        """Count a socket that was accepted.

        Args:
            peer: address of its other end; None: it has none.

        Returns:
            None when there are too many, and all of them have logged in: close it.
        """
        limits = self.limits
        if self._unauthenticated >= limits.unauthenticated or len(self._open_sockets) >= limits.all:
            has_room = self._make_room()
            self._warn()
            if not has_room:
                return None
        accepted = AcceptedSocket(self, handle, source_of(peer))
        self._open_sockets.add(accepted)
        self._add(accepted)
        return accepted

    def _make_room(self) -> bool:
        if not self._by_source:
            return False
        most = max(self._by_source, key=lambda source: len(self._by_source[source]))
        oldest = next(iter(self._by_source[most]))
        self.closed(oldest)  # at once: what comes in this turn of the loop needs the room
        oldest.drop()
        return True

    def _warn(self) -> None:
        self._unsaid += 1
        if self._now() >= self._warn_at:
            self._warn_at = self._now() + WARN_SECONDS
            text = "too many connections of %s, %d in all, %d not logged in; dropped %d of these"
            log.warning(
                text, self._protocol, len(self._open_sockets), self._unauthenticated, self._unsaid
            )
            self._unsaid = 0

    # -- what becomes of a socket

    def moved(self, accepted: AcceptedSocket, source: str) -> None:
        """See `AcceptedSocket.comes_from`."""
        if self._forget(accepted):
            accepted.source = source
            self._add(accepted)

    def authenticated(self, accepted: AcceptedSocket) -> None:
        """See `AcceptedSocket`."""
        self._forget(accepted)

    def closed(self, accepted: AcceptedSocket) -> None:
        """See `AcceptedSocket`."""
        self._open_sockets.discard(accepted)
        self._forget(accepted)

    def _add(self, accepted: AcceptedSocket) -> None:
        self._by_source.setdefault(accepted.source, {})[accepted] = None
        self._unauthenticated += 1

    def _forget(self, accepted: AcceptedSocket) -> bool:
        of_source = self._by_source.get(accepted.source, {})
        if accepted not in of_source:
            return False
        del of_source[accepted]
        if not of_source:
            del self._by_source[accepted.source]
        self._unauthenticated -= 1
        return True
