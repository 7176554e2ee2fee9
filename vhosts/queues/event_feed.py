"""What happens on a node, told to its log, and on `amq.rabbitmq.event` of the vhost where it tells of itself.

A message without a body: its routing key says what, as `queue.created`, its headers say of what.

Source: RabbitMQ's event exchange plugin.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from routelog.exchanges import RoutingTable
from routelog.vhosts.posting.broker_message import EVENT_EXCHANGE, tell
from routelog.vhosts.posting.post import Post
from routelog.vhosts.queues.queue import Queue


class TellingVhost(Protocol):
    """The vhost in which the node tells of itself."""

    routing: RoutingTable
    post: Post


class TellEvent(Protocol):
    """Tells of something; `key` is the routing key, the rest are headers."""

    def __call__(self, key: str, **headers: Any) -> None:
        """It has happened."""


def tell_nobody(key: str, **headers: Any) -> None:
    """Where nobody listens."""


class EventFeed:
    """Tells of what happens.

    Attributes:
        watch: is told of all events, those for the log alone included.

    Args:
        vhost: the one to tell it in; None: it is not there.
        now: microseconds since 1970.
    """

    def __init__(self, vhost: Callable[[], TellingVhost | None], now: Callable[[], int]) -> None:
        self._vhost = vhost
        self._now = now
        self.watch: Callable[[str, Mapping[str, Any]], None] = lambda key, fields: None

    def tell(self, key: str, **headers: Any) -> None:
        """See `TellEvent`: for the log, and for who is bound. What is None is left out."""
        self.watch(key, headers)
        self.publish(key, **headers)

    def note(self, key: str, **fields: Any) -> None:
        """Tell the log alone: RabbitMQ knows no such event, or it says more than users may read."""
        self.watch(key, fields)

    def publish(self, key: str, **headers: Any) -> None:
        """Tell those alone who are bound."""
        vhost = self._vhost()
        # Nearly always nobody is bound at all: a route is only remembered until the topology changes.
        if vhost is None or not vhost.routing.leads_on(EVENT_EXCHANGE):
            return
        if not vhost.routing.route(EVENT_EXCHANGE, key.encode()):
            return
        milliseconds = self._now() // 1_000
        said = {name: value for name, value in headers.items() if value is not None}
        said["timestamp_in_ms"] = milliseconds
        tell(vhost.post, EVENT_EXCHANGE, key, said, timestamp=milliseconds // 1_000)


def tell_of_queue(tell: TellEvent, what: str, queue: Queue) -> None:
    """A queue has come or gone."""
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
