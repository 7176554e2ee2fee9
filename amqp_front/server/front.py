"""AMQP 0-9-1 as a front end of a broker: its connections, from accept to close."""

import asyncio
import logging
from collections.abc import Set
from importlib.metadata import version
from typing import TYPE_CHECKING

from routelog.amqp_front.connections.connection import Connection
from routelog.amqp_front.node.services import Services
from routelog.amqp_front.publishing.firehose import Firehose, Listener
from routelog.amqp_front.server.connection_snapshot import OperatorView
from routelog.amqp_front.server.open_connections import OpenConnections
from routelog.amqp_front.server.operator_messages import OperatorMessages
from routelog.amqp_front.transactions.hosted_commits import HostedCommits
from routelog.broker import AcceptedSocket, BrokerConfig, Endpoint, NodeServices, StartError
from routelog.log_backend import Clock
from routelog.vhosts import VirtualHost

if TYPE_CHECKING:  # else only where it is asked for: its libraries are an extra
    from routelog.amqp_front.publishing.spans import Spans

log = logging.getLogger(__name__)


class AmqpFront:
    """See `Front`.

    Attributes:
        operators, messages: for the operators' doors; there when the node takes clients, as `commit` is.

    Raises:
        StartError: the libraries for spans are not installed, and wanted.
    """

    def __init__(self, config: BrokerConfig, node: str, clock: Clock) -> None:
        self._spans = open_spans(config, node, clock)
        self._connections = OpenConnections()

    def listeners_of(self, vhost: str) -> list[Listener]:
        """See `Front`."""
        return [] if self._spans is None else [self._spans.of_vhost(vhost)]

    def begin(self, services: NodeServices) -> None:
        """See `Front`."""
        self._services = Services.of(services)
        self.operators = OperatorView(self._connections.all, self._connections.opening)
        self.messages = OperatorMessages(self._services, self.operators)
        self.commit = HostedCommits(self._services)

    def trace(self, vhost: VirtualHost, wanted: bool) -> None:
        """See `Front`."""
        if wanted != (vhost.firehose is not None):
            log.info("firehose of vhost '%s': %s", vhost.name, "on" if wanted else "off")
            vhost.firehose = Firehose(vhost, self._services.node_name) if wanted else None

    def serve(self, accepted: AcceptedSocket, proxied: Endpoint | None, refusal: str) -> Connection:
        """See `Front`."""
        connection = Connection(self._services, self._connections, proxied, refusal)
        connection.accepted = accepted
        self._connections.accepted(connection)
        return connection

    def close_some(self, connections: Set[object], reason: str) -> None:
        """See `Front`."""
        self.operators.close_all(lambda connection: connection in connections, reason)

    def close_user(self, name: str, reason: str) -> None:
        """See `Front`."""
        self.operators.close_all(lambda connection: connection.user == name, reason)

    def close_vhost(self, name: str, reason: str) -> None:
        """See `Front`."""
        self.operators.close_all(lambda connection: connection.vhost.name == name, reason)

    def shut_down(self, reason: str) -> None:
        """See `Front`."""
        self._connections.shut_down(reason)

    async def aclose(self, reason: str) -> None:
        """See `Front`."""
        await self._connections.aclose(reason)

    async def finish(self) -> None:
        """See `Front`."""
        if self._spans is not None:
            await asyncio.to_thread(self._spans.close)


def open_spans(config: BrokerConfig, node: str, clock: Clock) -> "Spans | None":
    """Where spans go; None: none are made.

    Raises:
        StartError: the libraries for them are not installed.
    """
    if not config.otel_endpoint:
        return None
    try:
        from routelog.amqp_front.publishing.spans import Spans
    except ImportError:
        raise StartError("otel_endpoint: needs the extra routelog-broker[otel]") from None
    return Spans(config.otel_endpoint, node, version("routelog-broker"), clock)
