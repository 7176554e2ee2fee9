"""What a publisher needs of its channel."""

from collections.abc import Awaitable
from typing import Protocol

from routelog.amqp_front.node.services import Services
from routelog.vhosts import MessageCounters, PermissionCache, Recipient, VirtualHost


class PublishingChannel(Protocol):
    """A channel, or what stands for one.

    Attributes:
        returns_refused: its client asks for mandatory messages that were not stored, too.
    """

    number: int
    services: Services
    vhost: VirtualHost
    counters: MessageCounters
    user: str
    permissions: PermissionCache
    body_frame_max: int
    reply_address: str | None
    returns_refused: bool

    @property
    def connection_name(self) -> str:
        """What its connection is called."""

    @property
    def impersonates(self) -> bool:
        """Its user may publish in another's name."""

    def write(self, frames: bytes) -> None:
        """Send frames to the client."""

    def wait_for_consumers(self, queue: Recipient) -> None:
        """Publish no more until the consumers of a queue have caught up; see `ConsumerGates`."""

    def wait_for(self, arrived: Awaitable[None]) -> None:
        """Publish no more until a run has arrived in all its queues."""
