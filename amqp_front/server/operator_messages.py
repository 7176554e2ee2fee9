"""Publishing and taking single messages for operators, through the same checks as clients meet."""

import asyncio
import struct
from collections.abc import Awaitable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from pamqp import commands

from routelog.amqp_front.node.services import Services
from routelog.amqp_front.publishing.publisher import Publisher
from routelog.amqp_front.server.message_content import browsed_message, taken_message
from routelog.amqp_front.server.message_holders import message_holders
from routelog.amqp_front.server.message_moves import MessageMoves
from routelog.amqp_front.server.operator_view import OperatorView
from routelog.amqp_front.wire.errors import NO_ROUTE, AmqpError, SoftError
from routelog.amqp_front.wire.properties import Properties
from routelog.amqp_front.wire.single_run import single_run
from routelog.log_backend import PROPERTY_NAMES, Lane, Reason, pause
from routelog.vhosts import (
    FULL_PERMISSION,
    BrowsedMessage,
    Delivery,
    DeliverySource,
    MessageSearch,
    MoveOrder,
    MoveReport,
    PermissionBook,
    PermissionCache,
    Queue,
    QueueHandle,
    Recipient,
    ReturnReason,
    TakenMessage,
    VirtualHost,
    after,
    encoded_arguments,
    put_back,
    value_of,
)

_ACK, _NACK = b"\x00\x3c\x00\x50", b"\x00\x3c\x00\x78"
_RETURN = b"\x00\x3c\x00\x32"
_RETURN_REASON = struct.Struct(">HB")  # its code, and how long the text is that follows
_MANDATORY = 1

SHORT_STRING_BYTES_MAX = 255  # AMQP 0-9-1, 4.2.5.3
TAKEN_BYTES_MAX = 64 * 1024 * 1024  # of bodies: with the message that reaches it, no more are taken
TURN_MESSAGES = 64  # taken in one turn of the loop: about 1 ms


class MessageRefused(Exception):
    """What an operator wanted with a message is refused; the text says why."""


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
            MessageRefused: the message cannot be, the broker takes none now, or it was not stored.
            Errors of the lower packages: as a client would be refused.
        """
        if len(body) > self._services.config.message_bytes_max:
            raise MessageRefused("the message is larger than message_bytes_max")
        if self._services.gate.closed:
            raise MessageRefused("publishers wait at the moment: see the broker's log")
        if len(routing_key.encode(errors="replace")) > SHORT_STRING_BYTES_MAX:
            raise MessageRefused(f"the routing key is longer than {SHORT_STRING_BYTES_MAX} bytes")
        pace = self._services.publish_rates.pace(user or "", vhost.name)
        if seconds := pace.owed_seconds():
            raise MessageRefused(f"{pace.refusal()}: try again in {seconds:.3f} s")
        encoded = _encoded_properties(properties)
        permissions = _permissions(self._services, vhost, user)
        channel = _OperatorChannel(self._services, vhost, user or "", permissions)
        run = single_run(0, exchange.encode(), routing_key.encode(), _MANDATORY, encoded, body)
        try:
            for checked in channel.publisher.check(run):
                channel.publisher.publish(checked)
            pace.published(1, len(body))
            if not await channel.confirmed:
                reason = channel.refusal or "see the broker's log"
                raise MessageRefused(f"the message was not stored: {reason}")
        finally:
            channel.publisher.close()
        return not channel.returned

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
        return await value_of(after(queue.get(), hold))
    finally:
        is_awaited = False


def _permissions(services: Services, vhost: VirtualHost, user: str | None) -> PermissionCache:
    if user is not None:
        return PermissionCache(services.users.permissions, user, vhost.name)
    book = PermissionBook()
    book.put("", vhost.name, FULL_PERMISSION)
    return PermissionCache(book, "", vhost.name)


class _OperatorChannel:
    # What a publisher needs of its channel, with nobody at the other end.
    number = 0
    body_frame_max = 131_072
    reply_address: str | None = None
    connection_name = ""
    returns_refused = True

    def __init__(
        self, services: Services, vhost: VirtualHost, user: str, permissions: PermissionCache
    ) -> None:
        self.services = services
        self.vhost = vhost
        self.counters = vhost.counters.channel()
        self.user = user
        self.permissions = permissions
        self.returned = False
        self.refusal = ""
        self.confirmed: asyncio.Future[bool] = services.loop.create_future()
        self.publisher = Publisher(self)
        self.publisher.confirming = True

    @property
    def impersonates(self) -> bool:
        return not self.user or self.services.users.impersonates(self.user)

    def wait_for_consumers(self, queue: Recipient) -> None:
        pass  # it is for who asks for no confirms

    def wait_for(self, arrived: Awaitable[None]) -> None:
        pass  # there is one message, and its confirm is awaited

    def write(self, frames: bytes) -> None:
        method = frames[7:11]
        if method == _RETURN:
            code, size = _RETURN_REASON.unpack_from(frames, 11)
            self.returned = code == NO_ROUTE
            self.refusal = "" if self.returned else frames[14 : 14 + size].decode()
        elif method in (_ACK, _NACK) and not self.confirmed.done():
            self.confirmed.set_result(method == _ACK)


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


def _encoded_properties(properties: Mapping[str, object]) -> Properties:
    # As RabbitMQ: properties that there are not are passed over.
    values = {name: value for name, value in properties.items() if name in PROPERTY_NAMES}
    if isinstance(values.get("timestamp"), int):
        try:
            values["timestamp"] = datetime.fromtimestamp(int(str(values["timestamp"])), UTC)
        except (ValueError, OverflowError, OSError):
            raise MessageRefused("the timestamp cannot be") from None
    values["message_type"] = values.pop("type", "")
    values.pop("cluster_id", None)
    headers = values.pop("headers", {})
    if headers == []:  # PHP's, whose arrays are both
        headers = {}
    if not isinstance(headers, Mapping):
        raise MessageRefused("the headers are no object")
    try:
        listed: Any = commands.Basic.Properties(**values)  # type: ignore[arg-type]
        encoded = Properties(bytes(listed.marshal()))
        if headers:
            encoded = Properties(encoded.with_headers(encoded_arguments(headers)))
        encoded.delivery_mode()
    except (TypeError, ValueError, OverflowError, struct.error, SoftError) as error:
        raise MessageRefused(f"the properties cannot be: {error}") from None
    return encoded
