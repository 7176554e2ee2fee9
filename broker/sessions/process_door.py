"""Sessions between the processes of one node, over a Unix socket that only their user may open.

A front introduces itself by its first message; what follows is a session as any other.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Collection
from pathlib import Path
from typing import cast

from routelog.broker.sessions.front_node import KnownPositions
from routelog.mirror_cluster import LeadingNode
from routelog.vhosts import (
    SESSION_VERSION,
    BadSessionMessage,
    SessionKind,
    SessionMessage,
    decode_session_message,
    session_message_pieces,
)

log = logging.getLogger(__name__)

PATH_BYTES_MAX = 107  # of a Unix socket's path, which ends with a zero byte
OPEN_SECONDS_MAX = 5.0  # for an introduction
SOCKET_MODE = 0o600

DOOR = "processes.socket"  # in the data directory

TakeSession = Callable[[str, asyncio.Transport, bytes], None]


def door_path(data: Path) -> Path:
    """Where the door of a data directory is."""
    return data / DOOR


class ProcessDoor:
    """Where the process that has the data takes the sessions of the others.

    Args:
        path: of its socket; one that an earlier run has left is replaced.
        fronts: names of the other processes.
        take: takes a session, see `HostedSessions.take`.
    """

    def __init__(self, path: Path, fronts: Collection[str], take: TakeSession) -> None:
        self._path = path
        self._fronts = fronts
        self._take = take
        self._server: asyncio.AbstractServer | None = None

    async def open(self) -> None:
        """Listen.

        Raises:
            OSError: it cannot.
        """
        self._path.unlink(missing_ok=True)
        loop = asyncio.get_running_loop()
        # The process's umask lets nobody else open it before its mode is set.
        self._server = await loop.create_unix_server(
            lambda: _Introduction(self._fronts, self._take), str(self._path)
        )
        os.chmod(self._path, SOCKET_MODE)

    def close(self) -> None:
        """Take no more sessions."""
        if self._server is not None:
            self._server.close()
            self._path.unlink(missing_ok=True)


class _Introduction(asyncio.Protocol):
    def __init__(self, fronts: Collection[str], take: TakeSession) -> None:
        self._fronts = fronts
        self._take = take
        self._received = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(OPEN_SECONDS_MAX, self._transport.abort)

    def data_received(self, data: bytes) -> None:
        self._received += data
        try:
            decoded = decode_session_message(self._received, 0, len(self._received))
            if decoded is None:
                return
            message, size = decoded
            front = bytes(message.content).decode(errors="replace")
            if message.kind is not SessionKind.OPEN or message.number != SESSION_VERSION:
                raise BadSessionMessage(f"{message.kind.name} {message.number}")
            if front not in self._fronts:
                raise BadSessionMessage(f"'{front}' is no process of this node")
        except BadSessionMessage as error:
            log.error("a process is not let in: %s", error)
            self._transport.abort()
            return
        self._timer.cancel()
        self._transport.pause_reading()
        self._take(front, self._transport, bytes(self._received[size:]))

    def connection_lost(self, error: Exception | None) -> None:
        self._timer.cancel()


class LeadingProcess:
    """The process that has the data, as a front finds it: see `Leaders`. It is always the same one.

    Attributes:
        storage: says which definitions are known here: see `ClusterOfFront`.

    Args:
        path: of the door.
        name: of the process.
        front: what this process is called there.
    """

    def __init__(self, path: Path, name: str, front: str, storage: KnownPositions) -> None:
        self.storage = storage
        self._path = path
        self._front = front
        self._leader = LeadingNode(name, 0)

    @property
    def leader(self) -> LeadingNode:
        """See `Leaders`."""
        return self._leader

    def watch(self, changed: Callable[[], None]) -> None:
        """See `Leaders`: it never changes."""

    async def connect_session(
        self, leader: LeadingNode, take: Callable[[asyncio.Transport, bytes], None]
    ) -> None:
        """See `Leaders`."""
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_unix_connection(asyncio.Protocol, str(self._path))
        transport.pause_reading()  # it says nothing before it is asked
        opening = SessionMessage(
            SessionKind.OPEN, number=SESSION_VERSION, content=self._front.encode()
        )
        transport.writelines(session_message_pieces(opening))
        take(transport, b"")
