"""What the consuming side of a channel needs of the channel."""

from collections.abc import Sequence
from typing import Protocol

from routelog.amqp_front.node.services import Services
from routelog.amqp_front.wire.errors import SoftError
from routelog.log_backend import Octets
from routelog.vhosts import MessageCounters, VirtualHost


class RefusingChannel(Protocol):
    """A channel that can be closed because of a client's mistake."""

    number: int

    def refuse(self, error: SoftError, class_id: int, method_id: int) -> None:
        """Close it from our side."""


class ConsumingConnection(Protocol):
    """The connection of the channel.

    Attributes:
        consumers: those of all its channels.
        stalled: the client does not read what we send.
    """

    consumers: int
    stalled: bool

    @property
    def outbox_full(self) -> bool:
        """The client has not read for long."""

    def write(self, frames: bytes | bytearray) -> None:
        """Send frames to the client."""

    def write_parts(self, parts: Sequence[Octets]) -> None:
        """Send frames that lie in parts."""

    def fail(
        self,
        error: Exception,
        class_id: int = 0,
        method_id: int = 0,
        channel: RefusingChannel | None = None,
    ) -> None:
        """Answer an error: close the channel, the connection, or just drop it."""


class ClientChannel(RefusingChannel, Protocol):
    """What the consumption needs of its channel."""

    services: Services
    vhost: VirtualHost
    counters: MessageCounters
    body_frame_max: int
    reply_address: str | None
    flow_active: bool
    cancel_notify: bool

    @property
    def connection(self) -> ConsumingConnection:
        """Its connection."""

    def cancelled(self, frame: bytes) -> None:
        """Tell the client that a consumer has ended."""
