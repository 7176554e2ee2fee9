"""The connections of a broker, for the HTTP API and commands: to list and to close."""

from collections.abc import Callable, Collection, Iterator

from routelog.amqp_front.connections.connection import Connection
from routelog.amqp_front.connections.connection_methods import State
from routelog.amqp_front.server.connection_snapshot import (
    channel_snapshots,
    connection_snapshot,
    consumer_snapshots,
)
from routelog.amqp_front.wire.errors import CONNECTION_FORCED, HardError
from routelog.broker import ends_name
from routelog.vhosts import ChannelSnapshot, ConnectionSnapshot, ConsumerSnapshot


class OperatorView:
    """Connections that are in a vhost.

    Args:
        connections: all connections, shared with the broker.
        opening: those that are not in a vhost yet.
    """

    def __init__(
        self, connections: Collection[Connection], opening: Collection[Connection]
    ) -> None:
        self._connections = connections
        self._opening = opening

    @property
    def count(self) -> int:
        """The number of connections."""
        return len(self._connections) - len(self._opening)

    def connections(self) -> list[Connection]:
        """Handles of all connections that are not being closed, for the other methods."""
        return [each for each in list(self._connections) if each.state is State.OPEN]

    def name(self, connection: Connection) -> str:
        """The name of a connection, as in RabbitMQ: the client's address, then the broker's."""
        return ends_name(connection.socket)

    def describe(self, connection: Connection) -> ConnectionSnapshot:
        """A snapshot of a connection."""
        return connection_snapshot(connection)

    def channels(self, connection: Connection) -> Iterator[ChannelSnapshot]:
        """The channels of a connection."""
        return channel_snapshots(connection)

    def consumers(self, connection: Connection) -> Iterator[ConsumerSnapshot]:
        """The consumers of a connection."""
        return consumer_snapshots(connection)

    def close(self, connection: Connection, reason: str) -> None:
        """Close a connection with 320."""
        connection.shut_down(HardError(CONNECTION_FORCED, reason))

    def close_all(self, belongs: Callable[[Connection], bool], reason: str) -> None:
        """Close the connections of a deleted vhost or user."""
        for connection in self.connections():
            if belongs(connection):
                self.close(connection, reason)
