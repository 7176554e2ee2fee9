"""One connection between two nodes: the introduction, then messages of all shards in both directions."""

import asyncio
import logging
import ssl
from typing import Protocol, cast

from routelog.mirror_cluster.links.introduction import (
    DialerIntroduction,
    Introduced,
    ListenerIntroduction,
    Stranger,
    take_frame,
)
from routelog.mirror_cluster.node_tls import handshake_failure
from routelog.mirror_cluster.protocol.message_format import (
    BadMessage,
    decode_message,
    encode_message,
)
from routelog.mirror_cluster.protocol.messages import Message

log = logging.getLogger(__name__)

INTRODUCTION_SECONDS_MAX = 5.0  # who connects and says nothing is dropped
# Before another message is sent, however long that one is: followers acknowledge within a window of bytes, so
# that more than this is unsent only when the peer reads nothing.
UNSENT_BYTES_MAX = 256 * 1024 * 1024


class LinkOwner(Protocol):
    """Whom a link tells what happens to it. Each is called on the event loop."""

    def introduced(self, link: "NodeLink", other: Introduced) -> None:
        """The other end has proved who it is; messages may be sent."""

    def received(self, link: "NodeLink", message: Message) -> None:
        """A message came from a node that was introduced."""

    def ended(self, link: "NodeLink") -> None:
        """The connection is closed; nothing comes any more."""


class NodeLink(asyncio.Protocol):
    """See the module.

    Attributes:
        other: who is at the other end; None until it has proved that.

    Args:
        introduction: of the side that this one is.
        where: the other end is, for the log.
    """

    def __init__(
        self,
        introduction: DialerIntroduction | ListenerIntroduction,
        owner: LinkOwner,
        where: str,
    ) -> None:
        self.other: Introduced | None = None
        self._introduction = introduction
        self._owner = owner
        self._where = where
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._deadline: asyncio.TimerHandle | None = None
        self._has_opened = False

    # -- for its owner

    def send(self, message: Message) -> None:
        """Send a message; one that cannot arrive any more is dropped, as on a broken connection."""
        transport = self._transport
        if transport is None or self.other is None or transport.is_closing():
            return
        if transport.get_write_buffer_size() > UNSENT_BYTES_MAX:
            log.warning("node %s reads nothing: the connection is closed", self.other.node)
            transport.abort()
            return
        transport.write(encode_message(message))

    def give_away(self) -> tuple[asyncio.Transport, bytes]:
        """Leave the connection to another protocol, which is to be set at once, and to read on.

        Returns:
            The transport, which reads nothing, and what came behind the introduction.
        """
        transport, unread = self._transport, bytes(self._received)
        assert transport is not None
        self._transport = None
        self._received.clear()
        transport.pause_reading()
        return transport, unread

    def close(self) -> None:
        """Close the connection; what is unsent is dropped."""
        if self._transport is not None:
            self._transport.abort()

    # -- asyncio's

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        self._transport = transport = cast(asyncio.Transport, transport)
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(INTRODUCTION_SECONDS_MAX, self._too_late)
        if isinstance(self._introduction, DialerIntroduction):
            transport.write(self._introduction.first)

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        self._received += data
        try:
            if self.other is None:
                self._introduce()
            if self.other is not None:
                self._take_messages()
        except (Stranger, BadMessage) as error:
            log.warning("connection with %s is closed: %s", self._name(), error)
            self.close()

    def connection_lost(self, error: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        if isinstance(error, ssl.SSLError):
            log.warning("no connection with %s: %s", self._name(), handshake_failure(error))
        elif self.other is None:
            why = (str(error) if error else "") or "closed"
            log.info("%s ended before it was introduced: %s", self._name(), why + self._hint())
        self._stop_deadline()
        self._owner.ended(self)

    def _introduce(self) -> None:
        while self.other is None and (frame := take_frame(self._received)) is not None:
            introduction, other = self._introduction, None
            if isinstance(introduction, DialerIntroduction):
                last, other = introduction.answered(frame)
                self._write(last)
            elif not self._has_opened:
                self._has_opened = True
                self._write(introduction.opened(frame))
            else:
                other = introduction.proved(frame)
            if other is not None:
                self.other = other
                self._stop_deadline()
                self._owner.introduced(self, other)

    def _take_messages(self) -> None:
        taken = 0
        with memoryview(self._received) as view:
            while (found := decode_message(view[taken:])) is not None:
                message, size = found
                taken += size
                self._owner.received(self, message)
        del self._received[:taken]

    def _write(self, octets: bytes) -> None:
        if self._transport is not None:
            self._transport.write(octets)

    def _too_late(self) -> None:
        log.warning("%s did not introduce itself in time", self._name())
        self.close()

    def _stop_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _hint(self) -> str:
        # Who does not accept a certificate closes the connection, as asyncio sends no alert then.
        transport = self._transport  # None: the handshake has failed
        if transport is not None and transport.get_extra_info("sslcontext") is None:
            return ""
        return "; if it does not accept this node's certificate, its log says why"

    def _name(self) -> str:
        return self._where if self.other is None else f"node {self.other.node}"
