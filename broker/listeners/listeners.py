"""The listening sockets of a broker: TCP, TLS and Unix."""

import asyncio
import errno
import logging
import os
import socket
import stat
from collections.abc import Awaitable, Callable
from ipaddress import ip_network
from pathlib import Path

from routelog.broker.listeners.acceptor import Acceptor, Network, Serve
from routelog.broker.listeners.certificate_renewal import CertificateRenewal
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

BACKLOG = 1_024  # connections that the kernel accepts ahead of us

_ADVICE = {
    errno.EADDRINUSE: "; stop what listens there, or choose another --port",
    errno.EADDRNOTAVAIL: "; --host is no address of this machine",
    errno.EACCES: "; a port below 1024 is for root, or for who may bind it",
}


class CannotListen(Exception):
    """An address or a certificate cannot be used; the text says which, and why."""


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
    ) -> None:
        self.tls_address: tuple[str, int] | None = None
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
        try:
            self._proxies = [ip_network(text) for text in config.proxy_protocol_sources]
            plain = await self._listen(config.port)
            log.info("listening for AMQP on %s:%d", *plain)
            if config.tls_certificate:
                await self._open_tls()
            if config.unix_socket:
                self._open_unix(config.unix_socket)
        except CannotListen:
            await self.close()
            raise
        return plain

    async def _open_tls(self) -> None:
        config = self._config
        options = tls_options(config)
        warn_of_readers({options.key or options.certificate, *options.names.values()})
        try:
            certificates = TlsCertificates(options)
        except CertificateUnusable as error:
            raise CannotListen(str(error)) from None
        self.tls_address = await self._listen(config.tls_port, certificates)
        log.info("listening for TLS on %s:%d", *self.tls_address)
        self._renewal.watch("amqp/ssl", certificates)

    def _open_unix(self, path: str) -> None:
        try:
            listening = _listening_unix(path)
            os.chmod(path, self._unix_mode)  # the broker's own umask lets no other user in
        except (OSError, ValueError) as error:
            raise CannotListen(f"cannot listen on {path}: {error}") from None
        self._accept(listening, None)
        log.info("listening on %s", path)

    async def _listen(
        self, port: int, certificates: TlsCertificates | None = None
    ) -> tuple[str, int]:
        # For port 0 the first address gets a free port, and the others the same one.
        bound: tuple[str, int] | None = None
        for host in self._config.host.split(","):
            wanted = port if bound is None else bound[1]
            for listening in await self._bound(host.strip(), wanted):
                bound = bound or listening.getsockname()[:2]
                self._accept(listening, certificates)
        assert bound is not None
        return bound

    async def _bound(self, host: str, port: int) -> list[socket.socket]:
        try:
            return await listening_sockets(self._loop, host, port)
        except OSError as error:
            advice = _ADVICE.get(error.errno or 0, "")
            raise CannotListen(f"cannot listen on {host}:{port}: {error}{advice}") from None

    def _accept(self, listening: socket.socket, certificates: TlsCertificates | None) -> None:
        acceptor = Acceptor(
            listening,
            self._loop,
            sockets=self._sockets,
            tls=None if certificates is None else certificates.context,
            proxies=self._proxies,
            serve=self._serve,
            note=self._note,
            ready=self._ready,
        )
        self._acceptors.append(acceptor)

    # -- the end

    async def close(self) -> None:
        """Stop listening; connections stay."""
        for acceptor in self._acceptors:
            await acceptor.close()


async def listening_sockets(
    loop: asyncio.AbstractEventLoop, host: str, port: int
) -> list[socket.socket]:
    """Sockets that listen on all addresses of a host; of a port 0, on the same free one.

    Raises:
        OSError: one of them cannot be used; none is left open.
    """
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    opened: list[socket.socket] = []
    try:
        for family, _, _, _, address in found:
            opened.append(_listening(family, (address[0], port, *address[2:])))
            port = port or opened[0].getsockname()[1]
    except OSError:
        for each in opened:
            each.close()
        raise
    return opened


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


def _listening_unix(path: str) -> socket.socket:
    try:
        if stat.S_ISSOCK(os.stat(path).st_mode):
            Path(path).unlink()  # left over by an earlier run
    except FileNotFoundError:
        pass
    return _listening(socket.AF_UNIX, path)


def _listening(family: int, address: str | tuple[object, ...]) -> socket.socket:
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        if family != socket.AF_UNIX:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listening.bind(address)
        listening.listen(BACKLOG)
        listening.setblocking(False)
    except OSError:
        listening.close()
        raise
    return listening
