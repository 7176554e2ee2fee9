"""Where a node listens for its clients: AMQP, the HTTP API and metrics."""

import logging
from collections.abc import Awaitable, Callable

from routelog.broker.listeners.accept_share import AcceptShare
from routelog.broker.listeners.acceptor import Serve
from routelog.broker.listeners.certificate_renewal import CertificateRenewal
from routelog.broker.listeners.http_listeners import HttpListeners, MetricsListener
from routelog.broker.listeners.listeners import Listeners
from routelog.broker.listeners.listening_sockets import CannotListen
from routelog.broker.process.data_directory import StartError
from routelog.broker.process.open_files import open_files_limit, socket_limits
from routelog.broker.process.processes import ProcessPlace
from routelog.broker.process.services import NodeServices
from routelog.broker.sockets.accepted_sockets import AcceptedSockets
from routelog.broker.sockets.stalled_sockets import StalledSockets

log = logging.getLogger(__name__)


class NodeListeners:
    """The listening sockets of a node, and the sockets of its clients.

    Attributes:
        amqp_sockets, http_sockets: of clients, to be counted.
        renewal: of certificates, also those of other doors.
        amqp: opened and closed here.
        http, metrics: their owners open and close them.

    Args:
        serve: makes what a client of AMQP is given to.
        ready: see `Listeners`.
        umask: of who started the process.
        place: which of several processes of its node this is; None: it is the node.
    """

    def __init__(
        self,
        services: NodeServices,
        serve: Serve,
        ready: Callable[[], Awaitable[None]],
        umask: int,
        place: ProcessPlace | None,
    ) -> None:
        config, loop, now = services.config, services.loop, services.clock.monotonic
        note = services.vhosts.events.note
        files = open_files_limit()
        limits = socket_limits(config, files)
        whose = "" if place is None else " in all processes together"
        text = "of %d open files %d are for AMQP%s, %d for HTTP, %d for nodes, the rest for the log"
        log.info(text, files, limits.amqp.all, whose, limits.http.all, limits.nodes.all)
        self.amqp_sockets = AcceptedSockets("AMQP", limits.amqp, now)
        bound = share = None
        if place is not None:
            bound, share = place.sockets, AcceptShare(place.page, place.number)
            self.amqp_sockets.on_count, self.amqp_sockets.elsewhere = share.has, share.elsewhere
        self.http_sockets = AcceptedSockets("HTTP", limits.http, now)
        self.renewal = CertificateRenewal(loop)
        self.amqp = Listeners(
            config, loop, self.amqp_sockets, serve, self.renewal, umask, note, ready, bound, share
        )
        self.http = HttpListeners(config, loop, self.http_sockets, self.renewal, note)
        self.metrics = MetricsListener(config, loop, now, note)
        self._stalled = StalledSockets(
            loop, services.scheduler, self.amqp_sockets, config.send_timeout_seconds
        )

    async def open(self) -> tuple[str, int]:
        """Accept clients of AMQP; returns address and port.

        Raises:
            StartError: it cannot listen.
        """
        try:
            return await self.amqp.open()
        except CannotListen as error:
            self._stalled.stop()
            self.renewal.stop()
            raise StartError(str(error)) from None

    async def close(self) -> None:
        """Accept no client of AMQP any more; connections stay."""
        await self.amqp.close()
        self._stalled.stop()
        self.renewal.stop()
