"""Publishing and taking single messages for operators, through the same checks as clients meet."""

from collections.abc import Iterable, Mapping

from routelog.amqp_front.node.services import Services
from routelog.amqp_front.server.connection_snapshot import OperatorView
from routelog.amqp_front.server.message_batch import MessageBatch, MessageRefused
from routelog.amqp_front.server.message_content import browsed_message, taken_message
from routelog.amqp_front.server.message_holders import message_holders
from routelog.amqp_front.server.message_moves import MessageMoves
from routelog.amqp_front.wire.errors import AmqpError
from routelog.log_backend import Lane, Reason, pause
from routelog.vhosts import (
    BrowsedMessage,
    Delivery,
    DeliverySource,
    MessageSearch,
    MoveOrder,
    MoveReport,
    Queue,
    QueueHandle,
    ReturnReason,
    TakenMessage,
    VirtualHost,
    after,
    put_back,
    value_of,
)

TAKEN_BYTES_MAX = 64 * 1024 * 1024  # of bodies: with the message that reaches it, no more are taken
TURN_MESSAGES = 64  # taken in one turn of the loop: about 1 ms


class OperatorMessages:
    """The messages' side of the operators' doors.

    Attributes:
        refusals: how it refuses, besides the errors of the lower packages.
    """

    refusals: tuple[type[Exception], ...] = (MessageRefused, AmqpError)

    def __init__(self, services: Services, connections: OperatorView) -> None:
        self._services = services
        self._connections = connections

    async def publish(
        self,
        vhost: VirtualHost,
        user: str | None,
        exchange: str,
        routing_key: str,
        properties: Mapping[str, object],
        body: bytes,
    ) -> bool:
        """Publish a message and wait until it is confirmed.

        Args:
            user: whose permissions count; None: all is allowed.

        Returns:
            Whether it reached a queue.

        Raises:
            MessageRefused: the message cannot be, or it was not stored.
            PublishersWait: the broker takes none now.
            Errors of the lower packages: as a client would be refused.
        """
        with self.batch(vhost, user, exchange) as batch:
            batch.add(routing_key, properties, body)
            outcome = await batch.publish()
        if outcome.refused:
            reason = outcome.refusal or "see the broker's log"
            raise MessageRefused(f"the message was not stored: {reason}")
        return not outcome.unroutable

    def batch(self, vhost: VirtualHost, user: str | None, exchange: str) -> MessageBatch:
        """Begin messages that are published together; see `MessageBatch`."""
        return MessageBatch(self._services, vhost, user, exchange)

    async def take(
        self, queue: QueueHandle, count: int, outcome: Reason | ReturnReason
    ) -> list[TakenMessage]:
        """Take up to so many messages, and no more when their bodies come to TAKEN_BYTES_MAX.

        Args:
            outcome: of all of them, as if a client acknowledged, rejected or returned them.

        Raises:
            MessageRefused: the queue is a stream.
            QueueQuarantined: damage lies ahead.
        """
        if queue.is_stream:
            raise MessageRefused(f"basic.get from stream '{queue.name}'")
        held: list[Delivery] = []
        taken: list[TakenMessage] = []
        taker = self._services.vhosts.get(queue.vhost).counters.channel()
        size = 0
        # Until all is known they go back: nobody may see what was taken.
        becomes: Reason | ReturnReason = ReturnReason.UNUSED
        try:
            while len(taken) < count and size < TAKEN_BYTES_MAX:
                delivery = await _got(queue, held)
                if delivery is None:
                    break
                counters = delivery.partition.counters
                counters.got(taker, outcome is Reason.ACKED, delivery.redelivered)
                taken.append(taken_message(queue, delivery))
                size += len(taken[-1].body)
                if len(taken) % TURN_MESSAGES == 0:
                    await pause(Lane.OPERATORS)
            becomes = outcome
        finally:
            for partition, first, end in _ranges(held):
                if isinstance(becomes, ReturnReason):
                    partition.give_back(first, end, becomes)
                    partition.on_ready()
                    continue
                partition.settle(first, end, becomes)
                if becomes is Reason.REJECTED:
                    partition.counters.refused(taker, end - first)
        return taken

    async def browse(self, queue: Queue, search: MessageSearch, count: int) -> list[BrowsedMessage]:
        """The next messages that a search of a queue finds, up to so many; nothing becomes of them."""
        holders = await message_holders(queue, self._connections)
        found: list[BrowsedMessage] = []
        async for each in search.found():
            found.append(browsed_message(each, holders))
            if len(found) == count:
                break
        return found

    async def move(
        self, vhost: VirtualHost, queue: Queue, search: MessageSearch, order: MoveOrder
    ) -> MoveReport:
        """Carry out an order for what a search of a queue finds; see `MessageMoves`."""
        return await MessageMoves(self._services, vhost, queue).carry_out(search, order)


async def _got(queue: QueueHandle, held: list[Delivery]) -> Delivery | None:
    # The next message; it is in `held`, or back in its queue if this was cancelled before it came.
    is_awaited = True

    def hold(delivery: Delivery | None) -> Delivery | None:
        if delivery is not None:
            if is_awaited:
                held.append(delivery)
            else:
                put_back(delivery)
        return delivery

    try:
        return await value_of(after(queue.get(while_paused=True), hold))
    finally:
        is_awaited = False


def _ranges(held: Iterable[Delivery]) -> list[tuple[DeliverySource, int, int]]:
    # Neighbours are one range: each costs as much as many do.
    ranges: list[tuple[DeliverySource, int, int]] = []
    for delivery in held:
        partition, first = delivery.partition, delivery.offset
        end = first + delivery.count
        if ranges and ranges[-1][0] is partition and ranges[-1][2] == first:
            first = ranges.pop()[1]
        ranges.append((partition, first, end))
    return ranges
