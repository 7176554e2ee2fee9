"""Connecting with another node for one purpose: the connection is given away once the node is introduced."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable

from routelog.mirror_cluster.links.introduction import DialerIntroduction, Introduced, Opening
from routelog.mirror_cluster.links.node_link import NodeLink
from routelog.mirror_cluster.node_tls import ALL_OR_NONE, NodeTls, handshake_failure
from routelog.mirror_cluster.protocol.messages import Message

CONNECT_SECONDS_MAX = 2.0

TakeConnection = Callable[[asyncio.Transport, bytes], None]  # see `NodeLink.give_away`


class HandshakeFailed(OSError):
    """A node was reached, and one of the two does not accept the other; the text says why."""


async def connect(
    address: str, protocol: asyncio.BaseProtocol, tls: NodeTls | None
) -> asyncio.Transport:
    """Connect with `HOST:PORT`.

    Raises:
        HandshakeFailed: of TLS.
        OSError: it cannot be reached in time.
    """
    host, _, port = address.rpartition(":")
    loop = asyncio.get_running_loop()
    context = None if tls is None else tls.client
    try:
        async with asyncio.timeout(CONNECT_SECONDS_MAX):
            transport, _ = await loop.create_connection(
                lambda: protocol, host.strip("[]"), int(port), ssl=context
            )
    except ssl.SSLError as error:
        raise HandshakeFailed(handshake_failure(error)) from None
    except ConnectionResetError:
        if tls is None:
            raise
        raise HandshakeFailed(f"it ended the handshake of TLS: {ALL_OR_NONE}") from None
    return transport


async def connect_given(
    opening: Opening,
    secret: bytes,
    process: int | None,
    take: TakeConnection,
    reach: Callable[[asyncio.BaseProtocol], Awaitable[object]],
) -> None:
    """Connect, and give the connection away.

    Args:
        opening: names the node, and the purpose.
        process: of the node; no other one will do. None: any.
        take: called with the connection, in the turn in which the node is known to be that one.
        reach: connects with the node's address.

    Raises:
        OSError: it cannot be reached, or is not that process.
    """
    connecting = _GivenLink(process, take)
    link = NodeLink(DialerIntroduction(opening, secret), connecting, opening.to)
    try:
        await reach(link)
        await connecting.done
    except BaseException:
        link.close()
        raise


class _GivenLink:
    """The owner of a connection, until it is given away."""

    def __init__(self, process: int | None, take: TakeConnection) -> None:
        self.done = asyncio.get_running_loop().create_future()
        self._process = process
        self._take = take

    def introduced(self, link: NodeLink, other: Introduced) -> None:
        if self.done.done():
            return link.close()  # nobody waits for it any more
        if self._process not in (None, other.process):
            self.done.set_exception(ConnectionError(f"{other.node} is another process"))
            return link.close()
        self._take(*link.give_away())
        self.done.set_result(None)

    def received(self, link: NodeLink, message: Message) -> None:
        """No message comes before it is given away, nor here after that."""

    def ended(self, link: NodeLink) -> None:
        if not self.done.done():
            self.done.set_exception(ConnectionError("closed before it was introduced"))
