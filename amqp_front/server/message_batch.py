"""Messages that operators and HTTP clients publish together, through the same checks as AMQP clients meet."""

import asyncio
import struct
from array import array
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple, Self

from pamqp import commands

from routelog.amqp_front.node.services import Services
from routelog.amqp_front.publishing.publisher import Publisher
from routelog.amqp_front.publishing.return_sender import ReturnSender
from routelog.amqp_front.transactions.transaction import RUN_BYTES_MAX, RUN_RECORDS_MAX
from routelog.amqp_front.wire.command import CARBON_COPY, PublishRun
from routelog.amqp_front.wire.errors import SoftError
from routelog.amqp_front.wire.properties import Properties
from routelog.amqp_front.wire.single_run import property_flags
from routelog.broker import PublishersWait
from routelog.log_backend import PROPERTY_NAMES, Lane
from routelog.vhosts import (
    FULL_PERMISSION,
    BatchOutcome,
    PermissionBook,
    PermissionCache,
    Recipient,
    VirtualHost,
    encoded_arguments,
)

SHORT_STRING_BYTES_MAX = 255  # AMQP 0-9-1, 4.2.5.3

_MANDATORY = 1
_NACK = 120
_CONFIRM = struct.Struct(">9xHQ")  # of a basic.ack or basic.nack frame: method, delivery tag


class MessageRefused(Exception):
    """What somebody wanted with a message is refused; the text says why."""


class _Message(NamedTuple):
    key: bytes
    properties: bytes
    body: bytes
    flags: int  # see `PublishRun.property_flags`
    persistent: bool


class MessageBatch:
    """Messages for one exchange; none of them is published before `publish`. To be used with `with`.

    Args:
        user: whose permissions count; None: all is allowed.

    Raises:
        PublishersWait: the broker takes no messages now.
        Errors of the lower packages: there is no such exchange, or the user may not publish there.
    """

    def __init__(
        self, services: Services, vhost: VirtualHost, user: str | None, exchange: str
    ) -> None:
        share = services.intake.share(user or "")
        services.gate.look(services.clock.monotonic())
        for gate in (services.gate, share.closed_gate()):
            if gate is not None and gate.closed:
                raise PublishersWait(f"publishers wait: {', '.join(sorted(gate.reasons))}")
        self._pace = services.publish_rates.pace(user or "", vhost.name)
        if seconds := self._pace.owed_seconds():
            raise PublishersWait(self._pace.refusal(), seconds)
        self._services = services
        self._exchange = exchange.encode()
        self._charge = share.charge(0)
        self._channel = _BatchChannel(services, vhost, user)
        self._channel.publisher.begin(self._exchange, False)
        self._messages: list[_Message] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._channel.end()

    def receive(self, size: int) -> None:
        """Charge bytes of a request to the user, as long as the batch is there.

        Raises:
            IntakeFull: he has too much under way.
        """
        self._charge.grow(size)

    def add(self, routing_key: str, properties: Mapping[str, object], body: bytes) -> None:
        """Check one more message, and keep it.

        Raises:
            MessageRefused: it cannot be.
            Errors of the lower packages: as a client would be refused.
        """
        if len(body) > self._services.config.message_bytes_max:
            raise MessageRefused("the message is larger than message_bytes_max")
        key = routing_key.encode(errors="replace")
        if len(key) > SHORT_STRING_BYTES_MAX:
            raise MessageRefused(f"the routing key is longer than {SHORT_STRING_BYTES_MAX} bytes")
        encoded = _encoded_properties(properties)
        flags, persistent = property_flags(encoded), encoded.delivery_mode() == 2
        message = _Message(key, encoded.raw, body, flags, persistent)
        for _ in self._channel.publisher.check(self._run([message])):
            pass  # its errors are what is asked for
        self._messages.append(message)

    async def publish(self) -> BatchOutcome:
        """Publish the messages and wait for their confirms.

        Raises:
            Errors of the lower packages: the exchange is gone meanwhile; some messages may be published.
        """
        channel, scheduler = self._channel, self._services.scheduler
        publisher = channel.publisher
        channel.expected = len(self._messages)
        scheduler.begin(Lane.JOBS)
        for run in self._runs():
            left = run.count
            while left:
                part = run.part(run.count - left, left)
                publisher.publish(part)
                carried = publisher.carried
                self._pace.published(carried, part.bodies_bytes(carried))
                channel.returns.passed += carried
                left -= carried
                if publisher.fan_out is not None:
                    await publisher.fan_out
                if scheduler.is_over():
                    await scheduler.pause(Lane.JOBS)
        if self._messages:
            await channel.answered
        refused = frozenset(channel.refused)
        unroutable = [at for at in channel.returns.unroutable if at not in refused]
        confirmed = len(self._messages) - len(refused) - len(unroutable)
        return BatchOutcome(confirmed, unroutable, channel.refused, channel.returns.refusal)

    def _runs(self) -> Iterator[PublishRun]:
        run: list[_Message] = []
        size = 0
        for message in self._messages:
            if run and (
                len(run) == RUN_RECORDS_MAX
                or size >= RUN_BYTES_MAX
                or message.persistent is not run[0].persistent
                or (message.flags | run[0].flags) & CARBON_COPY  # it is a run of its own
            ):
                yield self._run(run)
                run, size = [], 0
            run.append(message)
            size += len(message.body)
        if run:
            yield self._run(run)

    def _run(self, messages: Sequence[_Message]) -> PublishRun:
        source, rows, flags = bytearray(), array("i"), 0
        for message in messages:
            flags |= message.flags
            for part in (message.key, message.properties, message.body):
                rows.extend((len(source), len(part)))
                source += part
        keys = {message.key for message in messages}
        return PublishRun(
            0,
            memoryview(source),
            memoryview(rows),
            len(messages),
            self._exchange,
            keys.pop() if len(keys) == 1 else None,
            _MANDATORY,
            flags,
            messages[0].persistent,
        )


class _Returns(ReturnSender):
    # Notes what comes back.
    def __init__(self, channel: "_BatchChannel") -> None:
        super().__init__(channel)
        self.passed = 0  # messages of the batch before the run that is published
        self.unroutable: list[int] = []
        self.refusal = ""

    def send(self, run: PublishRun, indexes: Sequence[int], refusal: str = "") -> None:
        if refusal:
            self.refusal = refusal
        else:
            self.unroutable += [self.passed + at for at in indexes]


class _BatchChannel:
    # What a publisher needs of its channel, with nobody at the other end.
    number = 0
    body_frame_max = 131_072
    reply_address: str | None = None
    connection_name = ""
    returns_refused = True

    def __init__(self, services: Services, vhost: VirtualHost, user: str | None) -> None:
        self.services = services
        self.vhost = vhost
        self.counters = vhost.counters.channel()
        self.user = user or ""
        self.permissions = _permissions(services, vhost, user)
        self.expected = 0
        self.refused: list[int] = []
        self.answered: asyncio.Future[None] = services.loop.create_future()
        self._last_tag = 0
        self.publisher = Publisher(self)
        self.publisher.confirming = True
        self.publisher.returns = self.returns = _Returns(self)

    def end(self) -> None:
        # Nothing is left for the garbage collector: these have the channel.
        self.publisher.close()
        del self.publisher, self.returns

    @property
    def impersonates(self) -> bool:
        return not self.user or self.services.users.impersonates(self.user)

    def wait_for_consumers(self, queue: Recipient) -> None:
        pass  # it is for who asks for no confirms

    def wait_for(self, arrived: Awaitable[None]) -> None:
        pass  # the batch does

    def write(self, frames: bytes) -> None:
        # Confirms, in order: their tags are the indexes of the messages, from 1 on.
        method, tag = _CONFIRM.unpack_from(frames)
        if method == _NACK:
            self.refused += range(self._last_tag, tag)
        self._last_tag = tag
        if tag == self.expected and not self.answered.done():
            self.answered.set_result(None)


def _permissions(services: Services, vhost: VirtualHost, user: str | None) -> PermissionCache:
    if user is not None:
        return PermissionCache(services.users.permissions, user, vhost.name)
    book = PermissionBook()
    book.put("", vhost.name, FULL_PERMISSION)
    return PermissionCache(book, "", vhost.name)


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
