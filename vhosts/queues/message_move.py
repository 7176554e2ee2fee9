"""What operators do with messages of a queue: move, copy, delete; and where each of them goes.

A moved message keeps its properties and headers, its exchange and its routing key, unless it is published to
another exchange. Its time begins anew, as it does for every message that comes to a queue.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Protocol

from routelog.exchanges import BARE_MESSAGE, Route, RoutingTable
from routelog.log_backend import (
    BLIND_COPIES,
    EXPIRATION,
    EXPIRING,
    OWN_DEATHS,
    PERSISTENT,
    MalformedProperties,
)
from routelog.vhosts.messages.property_list import PropertyList
from routelog.vhosts.publishing.internal_publish import decoded_message
from routelog.vhosts.queues.message_search import FoundMessage, MessageState, Place
from routelog.vhosts.queues.queue import Queue
from routelog.vhosts.rules.death import DEATH_HEADERS, last_death, own_deaths

SAMPLE_MAX = 10  # messages that a report shows


class MoveMode(StrEnum):
    """What becomes of a message in its queue."""

    MOVE = "move"
    COPY = "copy"  # and it stays
    DELETE = "delete"


class Unmoved(StrEnum):
    """Why a message stays where it is."""

    UNROUTABLE = "unroutable"
    TOPIC_PERMISSION = "topic permission"
    NO_DEATH = "not a dead letter"
    QUEUE_GONE = "its queue is gone"
    DIED_HERE = "it died in this queue"


@dataclass(frozen=True, slots=True)
class MovedMessage:
    """A message on its way.

    Attributes:
        route: names of what it comes to; empty: it is deleted.
        properties: its property list.
        attributes: of its batch, but KEY_COLUMN.
    """

    found: FoundMessage
    route: Route
    exchange: bytes
    routing_key: bytes
    properties: bytes
    attributes: int

    @property
    def body(self) -> memoryview:
        """A view of its body."""
        records, index = self.found.records, self.found.index
        at, offsets = records.bodies_at, records.offset_columns()
        return memoryview(records.payload)[at + offsets[index] : at + offsets[index + 1]]


class Destination(Protocol):
    """Where messages go."""

    def __call__(self, found: FoundMessage) -> MovedMessage | Unmoved:
        """The way of a message, by the topology of this moment, or why there is none."""


def nowhere(found: FoundMessage) -> MovedMessage:
    """See `Destination`: it is deleted."""
    return MovedMessage(found, (), b"", b"", b"", 0)


class ToQueue:
    """See `Destination`: one queue, past all bindings."""

    def __init__(self, queue: str, queues: Mapping[str, Queue]) -> None:
        self._route = (queue,)
        self._queues = queues

    def __call__(self, found: FoundMessage) -> MovedMessage | Unmoved:
        """See `Destination`."""
        if self._route[0] not in self._queues:
            return Unmoved.QUEUE_GONE
        records, index = found.records, found.index
        return _moved(found, self._route, records.exchange, records.routing_key(index))


class ToExchange:
    """See `Destination`: wherever an exchange leads under the routing key alone; CC and BCC mean nothing.

    Args:
        routing_key: None: that of each message.
        may_publish: whether the operator may publish with a key.
    """

    def __init__(
        self,
        routing: RoutingTable,
        exchange: str,
        routing_key: bytes | None,
        may_publish: Callable[[bytes], bool],
    ) -> None:
        self._routing = routing
        self._exchange = exchange
        self._key = routing_key
        self._may_publish = may_publish

    def __call__(self, found: FoundMessage) -> MovedMessage | Unmoved:
        """See `Destination`."""
        records, index = found.records, found.index
        key = records.routing_key(index) if self._key is None else self._key
        if not self._may_publish(key):
            return Unmoved.TOPIC_PERMISSION
        message = BARE_MESSAGE
        if self._routing.needs_headers(self._exchange):
            message = decoded_message(records.properties(index))
        route = self._routing.route(self._exchange, key, message)
        if not route:
            return Unmoved.UNROUTABLE
        return _moved(found, route, self._exchange.encode(), key)


class ToOrigin:
    """See `Destination`: the queue in which a dead letter died last, as it was before it died.

    It has its exchange and routing key of then, and no headers of deaths: whoever counts them begins anew. A
    message that only says itself that it died stays.
    """

    def __init__(self, queue: Queue, queues: Mapping[str, Queue]) -> None:
        self._queue = queue
        self._queues = queues

    def __call__(self, found: FoundMessage) -> MovedMessage | Unmoved:
        """See `Destination`."""
        try:
            properties = PropertyList(found.records.properties(found.index))
            death = last_death(properties.headers, own_deaths(found.records.attributes))
        except MalformedProperties:
            death = None
        if death is None:
            return Unmoved.NO_DEATH
        target = self._queues.get(death.queue)
        if target is None or target.deleted:
            return Unmoved.QUEUE_GONE
        if target is self._queue:
            return Unmoved.DIED_HERE
        for name in DEATH_HEADERS:
            properties.headers.pop(name, None)
        moved = _moved(found, (death.queue,), death.exchange, death.routing_key)
        attributes = moved.attributes & ~OWN_DEATHS
        return replace(moved, properties=properties.encode(), attributes=attributes)


def _moved(found: FoundMessage, route: Route, exchange: bytes, key: bytes) -> MovedMessage:
    properties = found.records.properties(found.index)
    attributes = found.records.attributes & (PERSISTENT | BLIND_COPIES | OWN_DEATHS)
    if int.from_bytes(properties[:2], "big") & EXPIRATION:
        attributes |= EXPIRING
    return MovedMessage(found, route, exchange, key, properties, attributes)


@dataclass(frozen=True, slots=True)
class MoveOrder:
    """What an operator wants done.

    Attributes:
        states: of the messages that may be taken; of those that are not, the report has the number.
        limit: messages at most.
        is_dry_run: nothing happens, but all is counted.
    """

    mode: MoveMode
    destination: Destination
    limit: int
    states: frozenset[MessageState] = frozenset((MessageState.READY,))
    is_dry_run: bool = False


@dataclass(slots=True)
class MoveReport:
    """What was done.

    Attributes:
        count: messages moved, copied or deleted; in a dry run, those that would be.
        skipped: how many were left, by the reason.
        sample: the first ones.
        places: where to go on; none: all was looked at.
        looked_at: messages.
        stopped: why it ended early; empty: it did not.
    """

    count: int = 0
    skipped: dict[str, int] = field(default_factory=dict)
    sample: list[MovedMessage] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    looked_at: int = 0
    stopped: str = ""

    def skip(self, reason: str, count: int = 1) -> None:
        """Count messages that are left."""
        self.skipped[reason] = self.skipped.get(reason, 0) + count
