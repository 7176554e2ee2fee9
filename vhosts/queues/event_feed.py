"""Events of a node, for its log and for the exchange `amq.rabbitmq.event` of the default vhost.

An event is a message without a body: the routing key names the event, as `queue.created`; headers have its
fields.

Source: RabbitMQ's event exchange plugin.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from routelog.exchanges import RoutingTable
from routelog.vhosts.publishing.internal_publisher import EVENT_EXCHANGE, InternalPublisher, tell
from routelog.vhosts.queues.queue import Queue


class TellingVhost(Protocol):
    """The vhost in which events are published."""

    routing: RoutingTable
    post: InternalPublisher


class TellEvent(Protocol):
    """Emits an event; `key` is the routing key, the rest are headers."""

    def __call__(self, key: str, **headers: Any) -> None:
        """Emit the event."""


def tell_nobody(key: str, **headers: Any) -> None:
    """An emitter that drops all events."""


class EventFeed:
    """Emits the events of a node.

    Attributes:
        watch: called with all events, those for the log alone included.

    Args:
        vhost: the vhost to publish in; None: it does not exist.
        now: microseconds since 1970.
    """

    def __init__(self, vhost: Callable[[], TellingVhost | None], now: Callable[[], int]) -> None:
        self._vhost = vhost
        self._now = now
        self.watch: Callable[[str, Mapping[str, Any]], None] = lambda key, fields: None

    def tell(self, key: str, **headers: Any) -> None:
        """See `TellEvent`: write to the log, and publish. Fields that are None are left out."""
        self.watch(key, headers)
        self.publish(key, **headers)

    def note(self, key: str, **fields: Any) -> None:
        """Write to the log alone: RabbitMQ has no such event, or users may not read its fields."""
        self.watch(key, fields)

    def publish(self, key: str, **headers: Any) -> None:
        """Publish the event without writing to the log."""
        vhost = self._vhost()
        # Nearly always no queue is bound; asking for a route first would fill the cache of routes.
        if vhost is None or not vhost.routing.leads_on(EVENT_EXCHANGE):
            return
        if not vhost.routing.route(EVENT_EXCHANGE, key.encode()):
            return
        milliseconds = self._now() // 1_000
        said = {name: value for name, value in headers.items() if value is not None}
        said["timestamp_in_ms"] = milliseconds
        tell(vhost.post, EVENT_EXCHANGE, key, said, timestamp=milliseconds // 1_000)


def tell_of_queue(tell: TellEvent, what: str, queue: Queue) -> None:
    """Emit that a queue was created or deleted."""
    told = queue.properties
    tell(
        what,
        name=queue.name,
        vhost=queue.vhost,
        durable=told.durable,
        auto_delete=told.auto_delete,
        exclusive=told.exclusive,
        arguments=dict(told.arguments),
    )
