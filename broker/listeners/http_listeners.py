"""The listening sockets of HTTP: of the API, plain, and TLS where there is a certificate; of metrics, plain.

Clients come first: where HTTP cannot listen, perhaps as another broker of this machine has the port, the broker
runs without.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Sequence
from dataclasses import replace

from routelog.broker.listeners.acceptor import Acceptor, Serve, ServedSocket
from routelog.broker.listeners.certificate_renewal import CertificateRenewal
from routelog.broker.listeners.listeners import tls_options
from routelog.broker.listeners.listening_sockets import listening_sockets
from routelog.broker.listeners.tls import CertificateUnusable, TlsCertificates
from routelog.broker.node.configuration import BrokerConfig
from routelog.broker.sockets.accepted_sockets import (
    AcceptedSocket,
    AcceptedSockets,
    SocketLimits,
)
from routelog.broker.sockets.proxy_header import Endpoint
from routelog.vhosts import TellEvent

log = logging.getLogger(__name__)

# A few servers, who scrape one at a time.
METRICS_SOCKETS = SocketLimits(all=16, unauthenticated=16)


class HttpListeners:
    """The listening sockets of the HTTP API.

    Attributes:
        addresses: by protocol, `http` and `https`.
        serve: makes the protocol of a client; set before `open`, and whenever it is to be another one.

    Args:
        sockets: counts the sockets of clients.
        renewal: reads the certificates again.
        note: writes to the log.
    """

    def __init__(
        self,
        config: BrokerConfig,
        loop: asyncio.AbstractEventLoop,
        sockets: AcceptedSockets,
        renewal: CertificateRenewal,
        note: TellEvent,
    ) -> None:
        self.addresses: dict[str, tuple[str, int]] = {}
        self._config = config
        self._loop = loop
        self._sockets = sockets
        self._renewal = renewal
        self._note = note
        self.serve: Serve | None = None
        self._acceptors: list[Acceptor] = []

    async def open(self, host: str) -> None:
        """Listen, unless it listens.

        Args:
            host: where the configuration names none.
        """
        if self._acceptors:
            return
        config = self._config
        host = config.management_host or host
        try:
            self.addresses["http"] = bound = await self._listen(host, config.management_port)
        except OSError as error:
            where = f"{host}:{config.management_port}"
            log.error("there is no HTTP API: it cannot listen on %s: %s", where, error)
            return
        log.info("listening for HTTP on %s:%d", *bound)
        if config.tls_certificate:
            await self._open_tls(config.management_tls_host or host)

    async def close(self) -> None:
        """Stop listening; connections stay."""
        while self._acceptors:
            await self._acceptors.pop().close()

    async def _open_tls(self, host: str) -> None:
        config = self._config
        options = replace(tls_options(config), verification=config.management_tls_verify)
        port = config.management_tls_port
        try:
            certificates = TlsCertificates(options)
            self.addresses["https"] = bound = await self._listen(host, port, certificates)
        except (CertificateUnusable, OSError) as error:
            log.error("there is no HTTP API over TLS on %s:%s: %s", host, port, error)
            return
        self._renewal.watch("https", certificates)
        log.info("listening for HTTPS on %s:%d", *bound)

    async def _listen(
        self, host: str, port: int, certificates: TlsCertificates | None = None
    ) -> tuple[str, int]:
        listening = await listening_sockets(self._loop, host, port)
        tls = None if certificates is None else certificates.latest
        self._acceptors += _acceptors(
            listening, self._loop, self._sockets, self._accepted, self._note, tls
        )
        return _bound(listening)

    def _accepted(self, accepted: AcceptedSocket, client: Endpoint | None) -> ServedSocket:
        assert self.serve is not None
        return self.serve(accepted, client)


class MetricsListener:
    """The listening sockets of metrics, which ask for no password.

    Attributes:
        address: where it listens; None: it does not.
        sockets: counts those of clients.

    Args:
        now: a monotonic clock, in seconds.
        note: writes to the log.
    """

    def __init__(
        self,
        config: BrokerConfig,
        loop: asyncio.AbstractEventLoop,
        now: Callable[[], float],
        note: TellEvent,
    ) -> None:
        self.address: tuple[str, int] | None = None
        self.sockets = AcceptedSockets("Prometheus", METRICS_SOCKETS, now)
        self._config = config
        self._loop = loop
        self._note = note
        self._acceptors: list[Acceptor] = []

    async def open(self, host: str, serve: Serve) -> None:
        """Listen.

        Args:
            host: where the configuration names none.
            serve: makes the protocol of a client.
        """
        host, port = self._config.prometheus_host or host, self._config.prometheus_port
        try:
            listening = await listening_sockets(self._loop, host, port)
        except OSError as error:
            log.error("there are no metrics: they cannot listen on %s:%d: %s", host, port, error)
            return
        self._acceptors += _acceptors(listening, self._loop, self.sockets, serve, self._note, None)
        self.address = _bound(listening)
        log.info("listening for Prometheus on %s:%d", *self.address)

    async def close(self) -> None:
        """Stop listening; connections stay."""
        while self._acceptors:
            await self._acceptors.pop().close()


def _acceptors(
    listening: Sequence[socket.socket],
    loop: asyncio.AbstractEventLoop,
    sockets: AcceptedSockets,
    serve: Serve,
    note: TellEvent,
    tls: Callable[[], ssl.SSLContext] | None,
) -> list[Acceptor]:
    return [
        Acceptor(each, loop, sockets=sockets, tls=tls, proxies=(), serve=serve, note=note)
        for each in listening
    ]


def _bound(listening: Sequence[socket.socket]) -> tuple[str, int]:
    bound = listening[0].getsockname()
    return bound[0], bound[1]
