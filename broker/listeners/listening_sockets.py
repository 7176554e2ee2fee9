"""Sockets that listen: those of AMQP all at once, so that they can be there before who accepts from them."""

import asyncio
import errno
import os
import socket
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from routelog.broker.node.configuration import BrokerConfig

BACKLOG = 1_024  # connections that the kernel accepts ahead of us

_ADVICE = {
    errno.EADDRINUSE: "; stop what listens there, or choose another --port",
    errno.EADDRNOTAVAIL: "; --host is no address of this machine",
    errno.EACCES: "; a port below 1024 is for root, or for who may bind it",
}


class CannotListen(Exception):
    """An address or a certificate cannot be used; the text says which, and why."""


@dataclass(frozen=True, slots=True)
class ListeningSockets:
    """The listening sockets of AMQP, also of several processes that share them.

    Attributes:
        plain, tls: of all addresses; without a certificate there are none for TLS.
        unix: where the configuration has a path.
    """

    plain: Sequence[socket.socket]
    tls: Sequence[socket.socket]
    unix: Sequence[socket.socket]

    @classmethod
    def bind(cls, config: BrokerConfig, unix_mode: int) -> "ListeningSockets":
        """Listen on all configured addresses; this blocks while it looks names up.

        Args:
            unix_mode: who may open the Unix socket.

        Raises:
            CannotListen: nothing listens then.
        """
        bound: list[list[socket.socket]] = []
        try:
            for port in (config.port, config.tls_port if config.tls_certificate else None):
                bound.append([])
                if port is not None:
                    for each in _on_all_hosts(config.host, port):
                        bound[-1].append(each)
            bound.append([_on_path(config.unix_socket, unix_mode)] if config.unix_socket else [])
        except CannotListen:
            for listening in bound:
                _close(listening)
            raise
        return cls(*bound)

    @property
    def address(self) -> tuple[str, int]:
        """Address and port of plain AMQP."""
        return _address(self.plain)

    @property
    def tls_address(self) -> tuple[str, int] | None:
        """The same of TLS; None: it is not listened for."""
        return _address(self.tls) if self.tls else None

    def close(self) -> None:
        """Close them, in this process."""
        _close((*self.plain, *self.tls, *self.unix))

    def refuse(self) -> None:
        """Let no process accept from them any more."""
        for each in (*self.plain, *self.tls):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for each in self.unix:  # which would be readable for ever
            Path(each.getsockname()).unlink(missing_ok=True)


def _address(listening: Sequence[socket.socket]) -> tuple[str, int]:
    host, port = listening[0].getsockname()[:2]
    return host, port


def _on_all_hosts(hosts: str, port: int) -> Iterator[socket.socket]:
    # For port 0 the first address gets a free port, and the others the same one.
    for host in map(str.strip, hosts.split(",")):
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            listening = _on_addresses(found, port)
        except OSError as error:
            advice = _ADVICE.get(error.errno or 0, "")
            raise CannotListen(f"cannot listen on {host}:{port}: {error}{advice}") from None
        port = port or listening[0].getsockname()[1]
        yield from listening


def _on_path(path: str, mode: int) -> socket.socket:
    try:
        listening = listening_unix(path)
        os.chmod(path, mode)  # the broker's own umask lets no other user in
    except (OSError, ValueError) as error:
        raise CannotListen(f"cannot listen on {path}: {error}") from None
    return listening


async def listening_sockets(
    loop: asyncio.AbstractEventLoop, host: str, port: int
) -> list[socket.socket]:
    """Sockets that listen on all addresses of a host; of a port 0, on the same free one.

    Raises:
        OSError: one of them cannot be used; none is left open.
    """
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return _on_addresses(found, port)


def _on_addresses(found: Iterable[tuple[Any, ...]], port: int) -> list[socket.socket]:
    opened: list[socket.socket] = []
    try:
        for family, _, _, _, address in found:
            opened.append(_listening(family, (address[0], port, *address[2:])))
            port = port or opened[0].getsockname()[1]
    except OSError:
        _close(opened)
        raise
    return opened


def listening_unix(path: str) -> socket.socket:
    """A Unix socket that listens; one that an earlier run has left is replaced.

    Raises:
        OSError, ValueError: it cannot be.
    """
    with suppress(FileNotFoundError):
        if stat.S_ISSOCK(os.stat(path).st_mode):
            Path(path).unlink()
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


def _close(sockets: Iterable[socket.socket]) -> None:
    for each in sockets:
        each.close()
