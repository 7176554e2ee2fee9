"""The sessions of all fronts, at the node that leads."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from routelog.broker.sessions.session_seeker import Write
from routelog.broker.sessions.session_socket import SessionSocket
from routelog.vhosts import SessionKind, SessionMessage, session_message_pieces

log = logging.getLogger(__name__)


class LeaderEnd(Protocol):
    """The leader's end of a session: see `HostedSession`."""

    def received(self, message: SessionMessage) -> None:
        """See `SessionEnd`."""

    def drained(self) -> None:
        """The system has taken most of what was to be sent."""

    def closed(self) -> None:
        """The session has ended."""


# Makes the leader's end: from the name of the front, what sends to it, and how much is unsent.
MakeEnd = Callable[[str, Write, Callable[[], int]], LeaderEnd]


class HostedSessions:
    """Takes the sessions of fronts, one for each node, until it is closed.

    Args:
        epoch: in which this node leads.
        lease_seconds: of the cluster.
        make: see `MakeEnd`.
    """

    def __init__(self, epoch: int, lease_seconds: float, make: MakeEnd) -> None:
        self._epoch = epoch
        self._silence_seconds = lease_seconds
        self._make = make
        self._sockets: dict[str, SessionSocket] = {}
        self._ends: dict[str, LeaderEnd] = {}

    @property
    def ends(self) -> Sequence[tuple[str, LeaderEnd]]:
        """The open sessions, by the names of their nodes."""
        return [*self._ends.items()]

    def take(self, front: str, transport: asyncio.Transport, unread: bytes) -> None:
        """Take a connection of a node; see `ClusterMember.take_sessions`."""
        self.close(front, "the node begins another session")
        socket = SessionSocket(
            transport,
            front,
            self._silence_seconds,
            asyncio.get_running_loop().call_later,
            partial(self._over, front),
            lambda: self._ends[front].drained(),
        )
        self._sockets[front] = socket
        end = self._make(front, socket.write, lambda: socket.outbox_bytes)
        self._ends[front] = socket.end = end
        log.info("a session with node %s", front)
        socket.write(session_message_pieces(SessionMessage(SessionKind.OPENED, number=self._epoch)))
        socket.begin(unread)

    def close(self, front: str, reason: str) -> None:
        """End the session of a node, if there is one."""
        socket = self._sockets.get(front)
        if socket is not None:
            socket.close(reason)

    def close_all(self, reason: str) -> None:
        """End all sessions."""
        for front in [*self._sockets]:
            self.close(front, reason)

    def _over(self, front: str, reason: str) -> None:
        log.warning("the session with node %s has ended: %s", front, reason)
        del self._sockets[front]
        self._ends.pop(front).closed()
