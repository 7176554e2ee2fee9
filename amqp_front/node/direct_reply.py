"""Direct reply-to: replies that go straight to the channel that asked, through no queue."""

from collections.abc import Iterable
from typing import Protocol

from routelog.amqp_front.wire.command import PublishRun
from routelog.log_backend import Clock, Records, random_name

PSEUDO_QUEUE = "amq.rabbitmq.reply-to"
ADDRESS_PREFIX = b"amq.rabbitmq.reply-to."


class ReplyConsumer(Protocol):
    """Takes replies."""

    def reply(self, records: Records) -> None:
        """Deliver a reply; it is settled."""


class DirectReplies:
    """Reply addresses: unguessable, and gone with their channel."""

    def __init__(self) -> None:
        self._consumers: dict[bytes, ReplyConsumer] = {}

    def open(self, consumer: ReplyConsumer) -> str:
        """A new address for a consumer; two words in Base64 as RabbitMQ's, which clients take apart."""
        address = ADDRESS_PREFIX + f"{random_name()}.{random_name()}==".encode()
        self._consumers[address] = consumer
        return address.decode()

    def close(self, address: str) -> None:
        """Forget an address."""
        self._consumers.pop(address.encode(), None)

    def find(self, address: bytes) -> ReplyConsumer | None:
        """Whom an address belongs to."""
        return self._consumers.get(address)

    def send(self, address: bytes, run: PublishRun, clock: Clock) -> bool:
        """Deliver what was published to an address; returns False when it belongs to nobody."""
        consumer = self.find(address)
        if consumer is not None:
            consumer.reply(run.records(0, clock.now()))
        return consumer is not None


def any_reply(keys: Iterable[bytes]) -> bool:
    """Tell whether one of some routing keys may be a reply address."""
    return any(key.startswith(ADDRESS_PREFIX) for key in keys)
