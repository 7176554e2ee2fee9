"""Messages that the broker itself publishes, on their way: in as many turns of the event loop as it takes."""

import struct
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from exchanges import BARE_MESSAGE, ExchangeNotFound, Message, Route
from log_backend import NOTHING, PERSISTENT, Clock, JournalPositions, Records, encode_records
from vhosts.appending import Appending
from vhosts.argument_table import decode_arguments
from vhosts.errors import TooLargeToRemember
from vhosts.passage import Passage
from vhosts.property_list import MalformedProperties, PropertyList, encode_table
from vhosts.recipient import Recipient
from vhosts.sharing_out import disjoint

LONG_ROUTE = 256  # queues: to find the way may have taken long

# In the routes of messages that go together: to tell which queues they share takes up to 1.5 ms.
NAMES_MAX = 4_096


class PostRouting(Protocol):
    """What the post needs of a vhost's routing."""

    def route_all(
        self, exchange: str, routing_keys: Sequence[bytes], message: Message = BARE_MESSAGE
    ) -> Route:
        """The queues that a message goes to by its keys.

        Raises:
            ExchangeNotFound: the exchange is not there.
        """

    def needs_headers(self, exchange: str) -> bool:
        """Whether headers may matter on the way from an exchange."""

    def remembers(self, exchange: str) -> bool:
        """Whether a message from an exchange may come to one that remembers."""


@dataclass(frozen=True, slots=True)
class PostWays:
    """How messages get from an exchange to queues.

    Attributes:
        passage: the way through exchanges that remember.
        recipients: what takes the messages of a route, see `RouteTargets.gradually`.
    """

    routing: PostRouting
    passage: Callable[[], Passage]
    recipients: Callable[[Route], Iterable[Recipient]]
    clock: Clock


class Outgoing(NamedTuple):
    """A message to be published.

    Attributes:
        properties: its property list.
        keys: routing keys; it carries the first.
        not_to: queues that it must not come to.
    """

    properties: bytes
    keys: Sequence[bytes]
    body: bytes
    not_to: Collection[str] = ()


class Posted(NamedTuple):
    """What became of some messages.

    Attributes:
        written, durable: how far the journal has to come until they are as safe as their queues promise.
        untaken: indexes of those that no queue took, or that one refused; what had to go to no queue is not
            among them.
        refused: those of them that a queue refused.
    """

    written: int
    durable: int
    untaken: frozenset[int]
    refused: frozenset[int] = frozenset()


class Posting:
    """The messages of one publish to an exchange; one that is not there takes none.

    Each queue has them in order. They are routed as their turn comes.

    Args:
        attributes: of their batches, but KEY_COLUMN.
        origin: name of the exchange that they are said to come from.
    """

    def __init__(
        self,
        ways: PostWays,
        exchange: str,
        messages: Sequence[Outgoing],
        attributes: int,
        origin: bytes,
    ) -> None:
        self._ways = ways
        self._exchange = exchange
        self._messages = messages
        self._attributes = attributes
        self._origin = origin
        self._appending = Appending(ways.clock)
        self._at = 0  # the first message whose way was not looked for
        self._written = self._durable = 0
        self._untaken: set[int] = set()
        self._refused: set[int] = set()

    @property
    def posted(self) -> Posted:
        """What has become of them, when all are on their way."""
        refused = frozenset(self._refused)
        return Posted(self._written, self._durable, refused | self._untaken, refused)

    def go_on(self, whole: bool) -> bool:
        """Publish as much as a turn is to bear, or all that is left; returns whether it was all.

        Raises:
            JournalFailed: the disk failed before; some may be in their queues, in memory.
        """
        appending = self._appending
        if appending.is_under_way:
            self._reached(appending.go_on(whole))
        else:
            appending.begin(True)
        while not appending.is_under_way:
            if self._at == len(self._messages):
                return True
            is_over = appending.is_over()  # the turn's time begins with the first look
            if is_over and self._at and not whole:
                return False
            try:
                self._publish_some(whole)
            except ExchangeNotFound:
                self._untaken.update(range(self._at, len(self._messages)))
                self._at = len(self._messages)
        return False

    def _publish_some(self, whole: bool) -> None:
        if self._ways.routing.remembers(self._exchange):
            # One by one: what becomes of a message may hang on the one before it.
            at, self._at = self._at, self._at + 1
            self._through_memories(at)
            return
        chosen = disjoint(self._chosen(whole))
        self._reached(self._appending.append(self._batches(chosen), whole))

    def _reached(self, positions: JournalPositions) -> None:
        self._written = max(self._written, positions.written)
        self._durable = max(self._durable, positions.durable)
        self._refused |= self._appending.refused
        self._appending.refused.clear()

    def _batches(
        self, chosen: dict[Route, list[int]]
    ) -> Iterator[tuple[Records, Iterable[Recipient], Sequence[int]]]:
        for route, places in chosen.items():
            yield self._encoded(places), self._ways.recipients(route), places

    def _chosen(self, whole: bool) -> dict[Route, list[int]]:
        # The next messages of each route: as many as there is time for.
        chosen: dict[Route, list[int]] = {}
        reads_headers = self._ways.routing.needs_headers(self._exchange)
        names = 0
        for place in range(self._at, len(self._messages)):
            message = self._messages[place]
            seen = decoded_message(message.properties) if reads_headers else BARE_MESSAGE
            found = self._ways.routing.route_all(self._exchange, message.keys, seen)
            route = _without(found, message.not_to) if message.not_to else found
            places = chosen.get(route)
            if places is not None:
                places.append(place)
            elif route:
                names += len(route)
                if chosen and names > NAMES_MAX:
                    break
                chosen[route] = [place]
            elif not found:
                self._untaken.add(place)
            self._at = place + 1
            to_look = not self._at % 16 or len(found) > LONG_ROUTE
            if to_look and not whole and self._appending.is_over():
                break
        return chosen

    def _through_memories(self, at: int) -> None:
        message, passage = self._messages[at], self._ways.passage()
        seen = decoded_message(message.properties)
        found = passage.route(0, self._exchange, message.keys, seen) or ()
        if not found and not passage.duplicates:
            self._untaken.add(at)
        route = _without(found, message.not_to)
        size = len(route) * (len(message.body) + len(message.properties))
        try:
            with passage.together(size):
                chosen = {route: [at]} if route else {}
                needed = self._appending.append(self._batches(chosen), True)
                taken = route and at not in self._appending.refused
                passage.remember(
                    {0: needed != NOTHING} if taken else {},
                    bool(self._attributes & PERSISTENT),
                    lambda places: self._encoded([at] * len(places)),
                    written=needed.written,
                    durable=needed.durable,
                )
        except TooLargeToRemember:
            self._untaken.add(at)
            return
        self._reached(needed.joined(JournalPositions(passage.written, passage.durable)))

    def _encoded(self, places: Sequence[int]) -> Records:
        source, rows = bytearray(), array("i")
        messages = [self._messages[place] for place in places]
        for message in messages:
            for part in (message.keys[0], message.properties, message.body):
                rows.extend((len(source), len(part)))
                source += part
        keys = {message.keys[0] for message in messages}
        batch: Records = encode_records(
            memoryview(source),
            memoryview(rows),
            None,
            len(messages),
            self._origin,
            keys.pop() if len(keys) == 1 else None,
            self._attributes,
            self._ways.clock.now(),
        )
        return batch


def _without(route: Route, not_to: Collection[str]) -> Route:
    names = set(not_to)
    return route if names.isdisjoint(route) else tuple(n for n in route if n not in names)


def decoded_message(properties: bytes) -> Message:
    """What exchanges see of a message by its property list; nothing of one that is malformed.

    Nobody checked the list of a plain message.
    """
    try:
        listed = PropertyList(properties)
        return Message(decode_arguments(encode_table(listed.headers)[4:]), listed.value)
    except (
        MalformedProperties,
        struct.error,
        ValueError,
        LookupError,
        OverflowError,
        RecursionError,
    ):
        return BARE_MESSAGE
