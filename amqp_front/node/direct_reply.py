"""Direct reply-to: replies that go straight to the channel that asked, through no queue."""

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

    def is_open(self, address: bytes) -> bool:
        """Whether somebody waits for replies at an address."""
        return address in self._consumers

    def send(self, address: bytes, run: PublishRun, indexes: list[int], clock: Clock) -> None:
        """Deliver messages of a run, by index, to an address; when it belongs to nobody, they are dropped."""
        consumer = self._consumers.get(address)
        if consumer is not None:
            consumer.reply(run.parts([indexes], 0, clock.now())[0])
