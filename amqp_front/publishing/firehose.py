"""The firehose: copies of all that is published and delivered in a vhost, for those who look for a fault.

A copy goes to `amq.rabbitmq.trace` under the key `publish.<exchange>` or `deliver.<queue>`, its body as it was,
its headers as RabbitMQ's. Copies of copies are not made. Vhosts that are not traced have no firehose.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Protocol

from routelog.amqp_front.wire.command import PublishRun
from routelog.amqp_front.wire.errors import AmqpError
from routelog.amqp_front.wire.properties import Properties, visible_properties
from routelog.amqp_front.wire.single_run import without_blind_copies
from routelog.exchanges import holding_exchange
from routelog.log_backend import PROPERTY_NAMES
from routelog.vhosts import TRACE_EXCHANGE, Decision, Delivery, VirtualHost, tell

_NUMBERS = {"delivery_mode", "priority"}


class TracedChannel(Protocol):
    """Whose message it is."""

    number: int
    user: str

    @property
    def connection_name(self) -> str:
        """What its connection is called."""


class Firehose:
    """Tells of the messages of one vhost.

    Args:
        node: the node's name.
    """

    def __init__(self, vhost: VirtualHost, node: str) -> None:
        self._vhost = vhost
        self._node = node

    def published(
        self, channel: TracedChannel, run: PublishRun, index: int, queues: Sequence[str]
    ) -> None:
        """A message was published.

        Args:
            run: as everybody may see it.
            index: of the message.
            queues: that it came to.
        """
        exchange, key = run.exchange.decode(), run.routing_key or run.keys()[index]
        headers = self._headers(channel, run.exchange, key, run.properties(index))
        routed = {**headers, "routed_queues": list(queues)}
        self._tell(exchange, f"publish.{exchange}", routed, run.body(index))

    def delivered(self, channel: TracedChannel, queue: str, delivery: Delivery) -> None:
        """Messages are on their way to a consumer."""
        records = delivery.records
        exchange = records.exchange.decode(errors="replace")
        for index in range(delivery.index, delivery.index + delivery.count):
            bare = visible_properties(records, index)
            headers = self._headers(channel, records.exchange, records.routing_key(index), bare)
            told = {**headers, "redelivered": int(delivery.redelivered)}
            self._tell(exchange, f"deliver.{queue}", told, records.body(index))

    def _tell(self, origin: str, key: str, headers: Mapping[str, object], body: bytes) -> None:
        if origin != TRACE_EXCHANGE:
            tell(self._vhost.post, TRACE_EXCHANGE, key, headers, body)

    def _headers(
        self, channel: TracedChannel, exchange: bytes, routing_key: bytes, bare: bytes
    ) -> dict[str, object]:
        properties = _property_table(bare)
        copies = properties.get("headers")
        copied = copies.get("CC") if isinstance(copies, Mapping) else None
        keys: list[object] = [routing_key.decode(errors="replace")]
        return {
            "exchange_name": exchange.decode(errors="replace"),
            "routing_keys": keys + (copied if isinstance(copied, list) else []),
            "properties": properties,
            "node": self._node,
            "vhost": self._vhost.name,
            "connection": channel.connection_name,
            "channel": channel.number,
            "user": channel.user,
        }


class Listener(Protocol):
    """Is told of the messages of a vhost: a firehose, or what makes spans of them."""

    def published(
        self, channel: Any, run: PublishRun, index: int, queues: Sequence[str], /
    ) -> None:
        """A message was published; see `Firehose`."""

    def delivered(self, channel: Any, queue: str, delivery: Delivery, /) -> None:
        """Messages are on their way to a consumer."""


def traces(
    listeners: Sequence[Listener], channel: TracedChannel, run: PublishRun, decision: Decision
) -> Iterator[Callable[[], None]]:
    """What tells listeners of each message that was decided, to be called in order."""
    run = without_blind_copies(run)
    routes = {at: route for route, indexes in decision.deliver.items() for at in indexes}
    for at in range(decision.first, decision.end):
        # Its queues, not what holds it until it is due.
        queues = [name for name in routes.get(at, ()) if holding_exchange(name) is None]
        for each in listeners:
            yield partial(each.published, channel, run, at, queues)


def _property_table(raw: bytes) -> dict[str, object]:
    table: dict[str, object] = {}
    try:
        properties = Properties(raw)
    except AmqpError:
        return table  # nobody checked the list of a plain message
    for name in PROPERTY_NAMES:
        value = properties.value(name)
        if value is not None:
            table[name] = (
                _header_table(properties, value) if name == "headers" else _plain(name, value)
            )
    return table


def _header_table(properties: Properties, fields: bytes) -> Mapping[str, object]:
    try:
        return properties.headers()
    except AmqpError:
        # Names that are no UTF-8, or very many fields: nobody had to read them so far.
        return {"undecoded": fields}


def _plain(name: str, value: bytes) -> object:
    if name in _NUMBERS:
        return value[0]
    if name == "timestamp":
        seconds = int.from_bytes(value, "big")
        return datetime.fromtimestamp(seconds, UTC) if seconds < 1 << 36 else seconds
    return value.decode(errors="replace")
