"""What a publisher needs of its channel."""

from collections.abc import Awaitable
from typing import Protocol

from routelog.amqp_front.node.services import Services
from routelog.amqp_front.publishing.firehose import TracedChannel
from routelog.amqp_front.publishing.publish_checks import CheckedChannel
from routelog.vhosts import MessageCounters, Recipient


class PublishingChannel(CheckedChannel, TracedChannel, Protocol):
    """A channel, or what stands for one.

    Attributes:
        returns_refused: its client asks for mandatory messages that were not stored, too.
    """

    services: Services
    counters: MessageCounters
    body_frame_max: int
    returns_refused: bool

    def write(self, frames: bytes) -> None:
        """Send frames to the client."""

    def wait_for_consumers(self, queue: Recipient) -> None:
        """Publish no more until the consumers of a queue have caught up; see `ConsumerGates`."""

    def wait_for(self, arrived: Awaitable[None]) -> None:
        """Publish no more until a run has arrived in all its queues."""
