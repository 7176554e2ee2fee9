"""What a channel needs of its connection."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from routelog.amqp_front.connections.client_socket import ClientSocket
from routelog.amqp_front.node.intake_budget import IntakeShare
from routelog.amqp_front.node.services import Services
from routelog.amqp_front.wire.errors import SoftError
from routelog.log_backend import Octets
from routelog.vhosts import PermissionCache, VirtualHost


class RefusingChannel(Protocol):
    """A channel that can be closed because of a client's mistake."""

    number: int

    def refuse(self, error: SoftError, class_id: int, method_id: int) -> None:
        """Close it from our side."""


class ChannelConnection(Protocol):
    """A connection, or what stands for one."""

    services: Services
    name: str
    vhost: VirtualHost
    user: str
    permissions: PermissionCache
    intake: IntakeShare
    body_frame_max: int
    stalled: bool
    cancel_notify: bool
    consumers: int
    socket: ClientSocket | None

    def write(self, frames: bytes | bytearray) -> None:
        """Send frames to the client."""

    def write_parts(self, parts: Sequence[Octets]) -> None:
        """Send frames that lie in parts."""

    def wait_for(self, done: Awaitable[object], then: Callable[[], None] | None = None) -> None:
        """Read no further commands until `done`, then call `then`."""

    def rest(self, then: Callable[[], None]) -> None:
        """Carry out no further commands until others had their turns, then call `then`."""

    def reached(self, weight: int, arrived: Awaitable[None] | None) -> None:
        """See `PublishingChannel`."""

    def end_turn(self) -> None:
        """What comes next is for another turn of the loop."""

    def channel_closed(self, number: int) -> None:
        """The channel is closed on both sides."""

    @property
    def outbox_full(self) -> bool:
        """The client has not read for long."""

    def fail(
        self,
        error: Exception,
        class_id: int = 0,
        method_id: int = 0,
        channel: RefusingChannel | None = None,
    ) -> None:
        """Answer an error: close the channel, the connection, or just drop it."""
