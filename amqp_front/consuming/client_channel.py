"""What the consuming side of a channel needs of the channel."""

from collections.abc import Sequence
from typing import Protocol

from routelog.amqp_front.node.services import Services
from routelog.log_backend import Octets
from routelog.vhosts import VirtualHost


class ConsumingConnection(Protocol):
    """The connection of the channel; `consumers` counts those of all its channels."""

    consumers: int


class ClientChannel(Protocol):
    """What the consumption needs of its channel."""

    @property
    def connection(self) -> ConsumingConnection:
        """Its connection."""

    number: int
    services: Services
    vhost: VirtualHost
    body_frame_max: int
    reply_address: str | None
    flow_active: bool
    cancel_notify: bool

    @property
    def stalled(self) -> bool:
        """The client does not read what we send."""

    @property
    def outbox_full(self) -> bool:
        """It has not done so for long."""

    def write(self, frames: bytes | bytearray) -> None:
        """Send frames to the client."""

    def cancelled(self, frame: bytes) -> None:
        """Tell the client that a consumer has ended."""

    def write_parts(self, parts: Sequence[Octets]) -> None:
        """Send frames that lie in parts."""

    def fail(self, error: Exception) -> None:
        """Close the connection because of a fault of ours."""

    def refuse_consume(self, error: Exception) -> None:
        """Answer an error that a consumer met later."""
