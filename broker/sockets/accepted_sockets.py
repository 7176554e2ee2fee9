"""The sockets of clients, from accept to close, and their limit: each is an open file.

When there are too many, a socket without a login is dropped: the oldest one of the source that has most of
them. So a client that opens many sockets loses its own, and other clients have time to log in.
"""

import logging
import socket
from collections.abc import Callable
from dataclasses import dataclass

from routelog.vhosts import source_of

log = logging.getLogger(__name__)

WARN_SECONDS = 10.0  # seconds between two warnings: a flood of sockets must not flood the log


@dataclass(frozen=True, slots=True)
class SocketLimits:
    """The limits of sockets.

    Attributes:
        all: sockets with and without a login.
        unauthenticated: sockets without a login.
    """

    all: int
    unauthenticated: int


class AcceptedSocket:
    """A client's socket.

    Attributes:
        handle: the socket itself, or what a transport lets see of it; it may be closed.
        source: of the client, see `source_of`.
        drop: closes it at once; each owner of the socket sets it anew, the first one when it is admitted.
        taken, idle_looks: see `StalledSockets`.
    """

    __slots__ = ("_sockets", "drop", "handle", "idle_looks", "source", "taken")

    def __init__(self, sockets: "AcceptedSockets", handle: socket.socket, source: str) -> None:
        self._sockets = sockets
        self.handle = handle
        self.source = source
        self.drop: Callable[[], object] = lambda: None
        self.taken = -1
        self.idle_looks = 0

    def comes_from(self, peer: str) -> None:
        """A PROXY header has named the client."""
        self._sockets.moved(self, source_of(peer))

    def authenticated(self) -> None:
        """The client has logged in: its socket is not dropped any more."""
        self._sockets.authenticated(self)

    def closed(self) -> None:
        """The socket is closed; may be called more than once."""
        self._sockets.closed(self)


class AcceptedSockets:
    """The sockets of all ports of one protocol.

    Attributes:
        on_count: told how many there are, whenever that changes.
        elsewhere: how many other processes have, which count for the limit of all.

    Args:
        protocol: its name, for the log.
        now: a monotonic clock, in seconds.
    """

    def __init__(self, protocol: str, limits: SocketLimits, now: Callable[[], float]) -> None:
        self._protocol = protocol
        self.limits = limits
        self._now = now
        self.on_count: Callable[[int], None] = lambda count: None
        self.elsewhere: Callable[[], int] = lambda: 0
        self._open_sockets: set[AcceptedSocket] = set()
        self._unauthenticated = 0
        # Sockets without a login by source, the oldest first
        self._by_source: dict[str, dict[AcceptedSocket, None]] = {}
        self._warn_at = float("-inf")
        self._unsaid = 0  # sockets that were dropped since the last warning

    def __len__(self) -> int:
        return len(self._open_sockets)

    def all(self) -> list[AcceptedSocket]:
        """The open sockets."""
        return list(self._open_sockets)

    def admit(self, handle: socket.socket, peer: str | None) -> AcceptedSocket | None:
        """Count a socket that was accepted.

        Args:
            peer: address of its other end; None: it has none.

        Returns:
            None: there are too many sockets, all with a login: close this one.
        """
        limits = self.limits
        count = len(self._open_sockets) + self.elsewhere()
        if self._unauthenticated >= limits.unauthenticated or count >= limits.all:
            has_room = self._make_room()
            self._warn()
            if not has_room:
                return None
        accepted = AcceptedSocket(self, handle, source_of(peer))
        self._open_sockets.add(accepted)
        self.on_count(len(self._open_sockets))
        self._add(accepted)
        return accepted

    def _make_room(self) -> bool:
        if not self._by_source:
            return False
        most = max(self._by_source, key=lambda source: len(self._by_source[source]))
        oldest = next(iter(self._by_source[most]))
        self.closed(oldest)  # at once: further sockets of this turn need the room
        oldest.drop()
        return True

    def _warn(self) -> None:
        self._unsaid += 1
        if self._now() >= self._warn_at:
            self._warn_at = self._now() + WARN_SECONDS
            text = "too many connections of %s, %d in all, %d not logged in; dropped %d of these"
            count = len(self._open_sockets) + self.elsewhere()
            log.warning(text, self._protocol, count, self._unauthenticated, self._unsaid)
            self._unsaid = 0

    # -- changes of a socket

    def moved(self, accepted: AcceptedSocket, source: str) -> None:
        """A PROXY header has named the client."""
        if self._forget(accepted):
            accepted.source = source
            self._add(accepted)

    def authenticated(self, accepted: AcceptedSocket) -> None:
        """The client has logged in: its socket is not dropped any more."""
        self._forget(accepted)

    def closed(self, accepted: AcceptedSocket) -> None:
        """The socket is closed; may be called more than once."""
        self._open_sockets.discard(accepted)
        self.on_count(len(self._open_sockets))
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
