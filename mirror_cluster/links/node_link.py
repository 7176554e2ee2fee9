"""One connection between two nodes: the introduction, then messages of all shards in both directions."""

import asyncio
import logging
import ssl
from collections.abc import Callable, Iterator
from typing import Protocol, cast

from routelog.mirror_cluster.links.introduction import (
    DialerIntroduction,
    Introduced,
    Introduction,
    Stranger,
    take_frame,
)
from routelog.mirror_cluster.links.receive_buffer import ReceiveBuffer
from routelog.mirror_cluster.node_tls import handshake_failure
from routelog.mirror_cluster.protocol.message_format import (
    BadMessage,
    decode_message,
    message_bytes,
    message_pieces,
)
from routelog.mirror_cluster.protocol.messages import Message

log = logging.getLogger(__name__)

INTRODUCTION_SECONDS_MAX = 5.0  # who connects and says nothing is dropped
# Before another message is sent, however long that one is: followers acknowledge within a window of bytes, so
# that more than this is unsent only when the peer reads nothing.
UNSENT_BYTES_MAX = 256 * 1024 * 1024


class DoorSocket(Protocol):
    """A socket that was accepted, as it is counted.

    Attributes:
        drop: closes it at once; set by whoever has it.
    """

    drop: Callable[[], object]

    def authenticated(self) -> None:
        """The other end is introduced: the socket is not dropped any more."""

    def closed(self) -> None:
        """It is closed, or somebody else's; may be called more than once."""


class LinkOwner(Protocol):
    """Whom a link tells what happens to it. Each is called on the event loop."""

    def introduced(self, link: "NodeLink", other: Introduced) -> None:
        """The other end has proved who it is; messages may be sent."""

    def received(self, link: "NodeLink", message: Message) -> None:
        """A message came from a node that was introduced."""

    def ended(self, link: "NodeLink") -> None:
        """The connection is closed; nothing comes any more."""


class NodeLink(asyncio.BufferedProtocol):
    """Introduces this node to another one, then sends and receives messages.

    Attributes:
        other: who is at the other end; None until it has proved that.

    Args:
        introduction: of the side that this one is.
        where: the other end is, for the log.
        accepted: the socket, where the other end has connected; None: this one has.
        tell: writes to the log why the other end was not introduced: level and text.
    """

    def __init__(
        self,
        introduction: Introduction,
        owner: LinkOwner,
        where: str,
        accepted: DoorSocket | None = None,
        tell: Callable[[int, str], None] = log.log,
    ) -> None:
        self.other: Introduced | None = None
        self._introduction = introduction
        self._owner = owner
        self._where = where
        self._tell = tell
        self._accepted = accepted
        self._transport: asyncio.Transport | None = None
        self._introducing = bytearray()  # what was not read of it
        self._received = ReceiveBuffer(decode_message, message_bytes)
        self._deadline: asyncio.TimerHandle | None = None
        self._has_opened = False
        self._is_refused = False  # and that was told

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
        transport.writelines(message_pieces(message))

    def give_away(self) -> tuple[asyncio.Transport, bytes]:
        """Leave the connection to another protocol, which is to be set at once, and to read on.

        Returns:
            The transport, which reads nothing, and what came behind the introduction.
        """
        transport, unread = self._transport, bytes(self._introducing)
        assert transport is not None
        self._transport = None
        self._introducing.clear()
        self._leave_door()
        transport.pause_reading()
        return transport, unread

    def close(self) -> None:
        """Close the connection; what is unsent is dropped."""
        if self._transport is not None:
            self._transport.abort()

    # -- asyncio's

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is there."""
        self._transport = transport = cast(asyncio.Transport, transport)
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(INTRODUCTION_SECONDS_MAX, self._too_late)
        if isinstance(self._introduction, DialerIntroduction):
            transport.write(self._introduction.first)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where received bytes go."""
        return self._received.room()

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes have come."""
        try:
            if self.other is not None:
                self._take(self._received.received(nbytes))
                return
            self._introducing += self._received.room()[:nbytes]
            self._introduce()
            if self.other is not None and self._transport is not None:
                # What is sent goes to the system at once: the turn may wait for the disk.
                self._transport.set_write_buffer_limits(high=0)
                unread = bytes(self._introducing)
                self._introducing.clear()
                self._take(self._received.add(unread))
        except Stranger as error:
            self._refuse(f"connection with {self._where} is closed: {error}")
        except BadMessage as error:
            log.warning("connection with %s is closed: %s", self._name(), error)
            self.close()

    def connection_lost(self, error: Exception | None) -> None:
        """The connection is closed."""
        if self.other is None and not self._is_refused:
            self._tell_end(error)
        self._leave_door()
        self._stop_deadline()
        self._owner.ended(self)

    def _tell_end(self, error: Exception | None) -> None:
        if isinstance(error, ssl.SSLError):
            text = f"no connection with {self._where}: {handshake_failure(error)}"
            return self._tell(logging.WARNING, text)
        why = (str(error) if error else "") or "closed"
        self._tell(
            logging.INFO, f"{self._where} ended before it was introduced: {why}{self._hint()}"
        )

    def _refuse(self, why: str) -> None:
        self._is_refused = True
        self._tell(logging.WARNING, why)
        self.close()

    def _leave_door(self) -> None:
        if self._accepted is not None:
            self._accepted.closed()

    def _introduce(self) -> None:
        while self.other is None and (frame := take_frame(self._introducing)) is not None:
            if not self._has_opened:
                self._has_opened = True
                self._write(self._introduction.opened(frame))
                continue
            last, self.other = self._introduction.proved(frame)
            self._write(last)
            self._stop_deadline()
            if self._accepted is not None:
                self._accepted.authenticated()
            self._owner.introduced(self, self.other)

    def _take(self, messages: Iterator[Message]) -> None:
        for message in messages:
            self._owner.received(self, message)

    def _write(self, octets: bytes) -> None:
        if self._transport is not None:
            self._transport.write(octets)

    def _too_late(self) -> None:
        self._refuse(f"{self._where} did not introduce itself in time")

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
