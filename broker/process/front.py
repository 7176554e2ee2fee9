"""What speaks a protocol with the clients of a broker."""

from collections.abc import Iterable, Set
from typing import Any, Protocol

from routelog.broker.listeners.acceptor import ServedSocket
from routelog.broker.process.services import NodeServices
from routelog.broker.sockets.accepted_sockets import AcceptedSocket
from routelog.broker.sockets.proxy_header import Endpoint
from routelog.vhosts import CommitParts, VirtualHost


class Front(Protocol):
    """The front end of a protocol; it is there before the node takes clients.

    Attributes:
        commit: carries out transactions of other nodes' clients; there when the node takes clients.
    """

    @property
    def commit(self) -> CommitParts:
        """See the class."""

    def listeners_of(self, vhost: str) -> Iterable[Any]:
        """Who is told of every message of a vhost."""

    def begin(self, services: NodeServices) -> None:
        """The node takes clients from now on."""

    def trace(self, vhost: VirtualHost, wanted: bool) -> None:
        """Switch the firehose of a vhost on or off, for clients of this node."""

    def serve(
        self, accepted: AcceptedSocket, proxied: Endpoint | None, refusal: str
    ) -> ServedSocket:
        """Make what a client's socket is given to; see `Serve`.

        Args:
            refusal: what the client is told instead of being served; empty: it is served.
        """

    def close_some(self, connections: Set[object], reason: str) -> None:
        """Close connections."""

    def close_user(self, name: str, reason: str) -> None:
        """Close the connections of a user."""

    def close_vhost(self, name: str, reason: str) -> None:
        """Close the connections to a vhost."""

    def shut_down(self, reason: str) -> None:
        """Begin to close all connections."""

    async def aclose(self, reason: str) -> None:
        """Close all connections; those that do not answer in time are cut off."""

    async def finish(self) -> None:
        """Hand out what is still to be told of messages: nothing comes any more."""
