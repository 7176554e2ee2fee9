"""The listening sockets of a broker: TCP, TLS and Unix."""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import ip_network
from pathlib import Path

from routelog.broker.listeners.accept_share import AcceptShare
from routelog.broker.listeners.acceptor import Acceptor, Network, Serve
from routelog.broker.listeners.certificate_renewal import CertificateRenewal
from routelog.broker.listeners.listening_sockets import CannotListen, ListeningSockets
from routelog.broker.listeners.tls import (
    CertificateUnusable,
    TlsCertificates,
    TlsOptions,
    warn_of_readers,
)
from routelog.broker.node.configuration import BrokerConfig
from routelog.broker.sockets.accepted_sockets import AcceptedSockets
from routelog.vhosts import TellEvent

log = logging.getLogger(__name__)


class Listeners:
    """All listening sockets of a broker.

    Attributes:
        tls_address: where it listens for TLS; None: it does not.

    Args:
        renewal: reads the certificates again.
        sockets: counts the sockets of clients.
        serve: makes a connection, given the client that a PROXY header names.
        umask: the operator's, which decides who may open the Unix socket.
        note: writes to the log.
        ready: see `Acceptor`.
        bound: the listening sockets, if they were there before.
        share: of all processes that accept from them.
    """

    def __init__(
        self,
        config: BrokerConfig,
        loop: asyncio.AbstractEventLoop,
        sockets: AcceptedSockets,
        serve: Serve,
        renewal: CertificateRenewal,
        umask: int,
        note: TellEvent,
        ready: Callable[[], Awaitable[None]],
        bound: ListeningSockets | None = None,
        share: AcceptShare | None = None,
    ) -> None:
        self.tls_address: tuple[str, int] | None = None
        self._bound = bound
        self._share = share
        self._config = config
        self._loop = loop
        self._sockets = sockets
        self._serve = serve
        self._proxies: list[Network] = []
        self._acceptors: list[Acceptor] = []
        self._renewal = renewal
        self._unix_mode = 0o777 & ~umask
        self._note = note
        self._ready = ready

    async def open(self) -> tuple[str, int]:
        """Listen on all configured addresses.

        Returns:
            Address and port of plain AMQP.

        Raises:
            CannotListen: nothing listens then.
        """
        config = self._config
        self._proxies = [ip_network(text) for text in config.proxy_protocol_sources]
        sockets = self._bound
        if sockets is None:
            bind = ListeningSockets.bind
            sockets = await self._loop.run_in_executor(None, bind, config, self._unix_mode)
        try:
            self._accept(sockets.plain, None)
            log.info("listening for AMQP on %s:%d", *sockets.address)
            if sockets.tls_address is not None:
                self._accept(sockets.tls, self._certificates())
                self.tls_address = sockets.tls_address
                log.info("listening for TLS on %s:%d", *self.tls_address)
            self._accept(sockets.unix, None)
            if sockets.unix:
                log.info("listening on %s", config.unix_socket)
        except CannotListen:
            await self.close()
            sockets.close()
            raise
        return sockets.address

    def _certificates(self) -> TlsCertificates:
        options = tls_options(self._config)
        warn_of_readers({options.key or options.certificate, *options.names.values()})
        try:
            certificates = TlsCertificates(options)
        except CertificateUnusable as error:
            raise CannotListen(str(error)) from None
        self._renewal.watch("amqp/ssl", certificates)
        return certificates

    def _accept(
        self, sockets: Sequence[socket.socket], certificates: TlsCertificates | None
    ) -> None:
        self._acceptors += [
            Acceptor(
                listening,
                self._loop,
                sockets=self._sockets,
                tls=None if certificates is None else certificates.latest,
                proxies=self._proxies,
                serve=self._serve,
                note=self._note,
                ready=self._ready,
                share=self._share,
            )
            for listening in sockets
        ]

    # -- the end

    async def close(self) -> None:
        """Stop listening; connections stay."""
        for acceptor in self._acceptors:
            await acceptor.close()


def tls_options(config: BrokerConfig) -> TlsOptions:
    """The TLS options of the configuration, which must name a certificate."""
    named = (entry.split("=", 1) for entry in config.tls_names)
    return TlsOptions(
        certificate=Path(config.tls_certificate),
        key=Path(config.tls_key) if config.tls_key else None,
        authorities=Path(config.tls_authorities) if config.tls_authorities else None,
        verification=config.tls_verify,
        names={name: Path(file) for name, file in named},
        version_min=config.tls_version_min,
    )
