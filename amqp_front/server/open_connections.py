"""The connections of a broker, from accept to close: what is told of them, and the end of all."""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress

from routelog.amqp_front.connections.connection import Connection
from routelog.amqp_front.node.services import PROTOCOL
from routelog.amqp_front.wire.errors import CONNECTION_FORCED, HardError
from routelog.broker import client_described, ends_name

log = logging.getLogger(__name__)

STOP_SECONDS_MAX = 5.0  # for clients to answer connection.close when the broker stops


class OpenConnections:
    """See the module; it is their `ConnectionKeeper`.

    Attributes:
        all: those whose socket is open, oldest first.
        opening: those of them that have not logged in.
    """

    def __init__(self) -> None:
        self.all: dict[Connection, None] = {}
        self.opening: set[Connection] = set()
        self._all_closed: asyncio.Event | None = None

    def accepted(self, connection: Connection) -> None:
        """Its socket is there."""
        self.all[connection] = None
        self.opening.add(connection)

    def opened(self, connection: Connection) -> None:
        """See `ConnectionKeeper`."""
        self.opening.discard(connection)
        self._tell_of("connection.created", connection, client_described(connection.socket))

    def closed(self, connection: Connection) -> None:
        """See `ConnectionKeeper`."""
        self.all.pop(connection, None)
        self.opening.discard(connection)
        reason = "" if connection.socket is None else connection.socket.end_reason
        reason = reason or "the client has closed its socket without connection.close"
        if connection.admitted:
            connection.services.admission.left(connection.user, connection.vhost.name)
            self._tell_of("connection.closed", connection, {"reason": reason})
        elif connection.socket is not None:
            connection.services.vhosts.events.note(
                "connection.dropped", address=connection.name, reason=reason
            )
        if not self.all and self._all_closed is not None:
            self._all_closed.set()

    def _tell_of(self, what: str, connection: Connection, more: Mapping[str, object]) -> None:
        said = {
            "name": ends_name(connection.socket),
            "user": connection.user,
            "vhost": connection.vhost.name,
            "protocol": PROTOCOL,
            "node": connection.services.node_name,
        }
        events = connection.services.vhosts.events
        events.publish(what, **said)
        events.note(what, **said, **more)

    def shut_down(self, reason: str) -> None:
        """Begin to close them with 320."""
        for connection in list(self.all):
            connection.shut_down(HardError(CONNECTION_FORCED, reason))

    async def aclose(self, reason: str) -> None:
        """Close them with 320; those that do not answer in time are cut off."""
        self.shut_down(reason)
        if self.all:
            self._all_closed = asyncio.Event()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._all_closed.wait(), STOP_SECONDS_MAX)
        if self.all:
            log.warning("%d connections did not answer connection.close: cut off", len(self.all))
        for connection in list(self.all):
            connection.abort()
