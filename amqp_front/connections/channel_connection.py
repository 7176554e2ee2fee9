"""What a channel needs of its connection."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from routelog.amqp_front.connections.publishing_hold import PublishingHold
from routelog.amqp_front.consuming.client_channel import ConsumingConnection
from routelog.amqp_front.node.services import Services
from routelog.broker import ClientSocket, IntakeShare, PublishPace
from routelog.vhosts import PermissionCache, VirtualHost


class ChannelConnection(ConsumingConnection, Protocol):
    """A connection, or what stands for one."""

    services: Services
    hold: PublishingHold
    name: str
    vhost: VirtualHost
    user: str
    permissions: PermissionCache
    intake: IntakeShare
    pace: PublishPace
    body_frame_max: int
    cancel_notify: bool
    returns_refused: bool
    socket: ClientSocket | None

    def wait_for(
        self,
        done: Awaitable[object],
        then: Callable[[], None] | None = None,
        failed: Callable[[Exception], None] | None = None,
    ) -> None:
        """Read no further commands until `done`, then call `then`, or `failed` with its error."""

    def rest(self, then: Callable[[], None]) -> None:
        """Carry out no further commands until others had their turns, then call `then`."""

    def channel_closed(self, number: int) -> None:
        """The channel is closed on both sides."""
