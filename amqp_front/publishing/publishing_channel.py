"""What a publisher needs of its channel."""

from collections.abc import Awaitable
from typing import Protocol

from routelog.amqp_front.node.services import Services
from routelog.vhosts import MessageCounters, PermissionCache, Recipient, VirtualHost


class PublishingChannel(Protocol):
    """A channel, or what stands for one."""

    number: int
    services: Services
    vhost: VirtualHost
    counters: MessageCounters
    user: str
    permissions: PermissionCache
    body_frame_max: int
    reply_address: str | None

    @property
    def connection_name(self) -> str:
        """What its connection is called."""

    @property
    def impersonates(self) -> bool:
        """Its user may publish in another's name."""

    def write(self, frames: bytes) -> None:
        """Send frames to the client."""

    def wait_for_consumers(self, queue: Recipient) -> None:
        """Publish no more until the consumers of a queue have caught up; see `PublisherPace`."""

    def reached(self, weight: int, arrived: Awaitable[None] | None) -> None:
        """A run went to several queues, which takes time.

        Args:
            weight: of those queues, see `Appending`.
            arrived: done when the rest of them have it, and more may be published; None: all have it.
        """
