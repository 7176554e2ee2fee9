"""What a broker has to do with queues, consumers and settlement: no code of the broker is in it."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable
from dataclasses import dataclass, field


class ModelViolated(Exception):
    """The broker did something that it must not do."""


@dataclass(order=True)
class Message:
    """One message in one queue; messages are ordered as they were published.

    Attributes:
        redelivered: somebody had it before.
    """

    number: int
    redelivered: bool = field(default=False, compare=False)


@dataclass
class QueueModel:
    """A queue: what is ready, in order, and who consumes.

    Attributes:
        length_max: ready messages; None: any number.
        refuses: a full queue refuses what is published; otherwise its oldest message goes.
        deleted: nothing comes back to it.
    """

    name: str
    length_max: int | None = None
    refuses: bool = False
    ready: list[Message] = field(default_factory=list)
    consumers: list[ConsumerModel] = field(default_factory=list)
    deleted: bool = False

    def takes(self) -> bool:
        """Whether it takes one more message."""
        full = self.length_max is not None and len(self.ready) >= self.length_max
        return not (self.refuses and full and not self.credit())

    def credit(self) -> int:
        """How many messages its consumers take now."""
        return sum(consumer.credit() for consumer in self.consumers)

    def give_back(self, messages: Iterable[Message]) -> None:
        """Messages that were handed out are ready again, in their old places."""
        for message in messages:
            message.redelivered = True
            if not self.deleted:
                insort(self.ready, message)

    def due(self) -> list[Message]:
        """What consumers must be sent before anything else happens."""
        return self.ready[: self.credit()]

    def drop_excess(self) -> None:
        """Let the oldest go when there is nobody left to take what is too much."""
        if self.length_max is not None and not self.refuses:
            del self.ready[: max(0, len(self.ready) - self.length_max)]

    def take(self, number: int, redelivered: bool) -> Message:
        """The broker handed out a message.

        Raises:
            ModelViolated: it is not ready, or not marked as it should be.
        """
        for at, message in enumerate(self.ready):
            if message.number == number:
                if message.redelivered != redelivered:
                    raise ModelViolated(f"{self.name}: {message}, delivered with {redelivered=}")
                return self.ready.pop(at)
        raise ModelViolated(f"{self.name}: {number} was delivered, ready are {self.ready}")


UNLIMITED = 1 << 30


@dataclass(eq=False)
class ConsumerModel:
    """A consumer.

    Attributes:
        prefetch: unsettled deliveries that it takes; 0: any number.
        latest: of the messages that it was sent in this step.
    """

    tag: str
    queue: QueueModel
    channel: ChannelModel
    prefetch: int
    no_ack: bool
    latest: int = 0

    def credit(self) -> int:
        """How many messages it takes now."""
        if self.no_ack or not self.prefetch:
            return UNLIMITED
        held = sum(each.consumer is self for each in self.channel.unsettled.values())
        return max(0, self.prefetch - held)

    def delivered(self, tag: int, number: int, redelivered: bool) -> None:
        """The broker sent it a message.

        Raises:
            ModelViolated: it has no credit, or the message is not the queue's to give.
        """
        if not self.credit():
            raise ModelViolated(f"{self.tag} was sent {number} beyond its prefetch")
        if number < self.latest:
            raise ModelViolated(f"{self.tag} was sent {number} behind {self.latest}")
        message = self.queue.take(number, redelivered)
        self.latest = number
        self.channel.delivered(tag, Delivery(self.queue, message, self), self.no_ack)


@dataclass
class Delivery:
    """A message that a channel holds; `consumer` is None for basic.get."""

    queue: QueueModel
    message: Message
    consumer: ConsumerModel | None


@dataclass(eq=False)
class ChannelModel:
    """A channel: what it holds, by delivery tag."""

    consumers: dict[str, ConsumerModel] = field(default_factory=dict)
    unsettled: dict[int, Delivery] = field(default_factory=dict)
    last_tag: int = 0

    def delivered(self, tag: int, delivery: Delivery, no_ack: bool) -> None:
        """The broker sent it a message.

        Raises:
            ModelViolated: delivery tags have to count.
        """
        if tag != self.last_tag + 1:
            raise ModelViolated(f"delivery tag {tag} follows {self.last_tag}")
        self.last_tag = tag
        if not no_ack:
            self.unsettled[tag] = delivery

    def settle(self, tag: int, *, multiple: bool, requeue: bool) -> None:
        """The client settled or returned deliveries."""
        tags = [each for each in self.unsettled if each == tag or (multiple and each < tag)]
        self._leave([self.unsettled.pop(each) for each in tags], requeue=requeue)

    def recover(self) -> None:
        """Everything goes back."""
        held, self.unsettled = list(self.unsettled.values()), {}
        self._leave(held, requeue=True)

    def close(self) -> None:
        """Consumers end, and everything goes back."""
        for consumer in self.consumers.values():
            consumer.queue.consumers.remove(consumer)
        self.consumers.clear()
        self.recover()

    def _leave(self, deliveries: list[Delivery], *, requeue: bool) -> None:
        if requeue:
            for delivery in deliveries:
                delivery.queue.give_back([delivery.message])
