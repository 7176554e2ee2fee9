"""Messages that the broker itself publishes: through an exchange, to queues of the vhost, without a channel."""

import struct
from array import array
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple, Protocol

from exchanges import BARE_MESSAGE, ExchangeNotFound, Message, Route
from log_backend import PERSISTENT, Durability, Records, encode_records
from vhosts.argument_table import decode_arguments
from vhosts.errors import PublishRefused, TooLargeToRemember
from vhosts.passage import Passage
from vhosts.property_list import MalformedProperties, PropertyList, encode_table


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


class Recipient(Protocol):
    """A queue that messages come to, or what holds them until they go on."""

    @property
    def name(self) -> str:
        """What a route leads to it by."""

    @property
    def durability(self) -> Durability:
        """What a position of the journal must reach for it."""

    @property
    def deleted(self) -> bool:
        """It takes nothing any more."""

    @property
    def has_turn(self) -> bool:
        """It will give messages to consumers after this turn of the event loop."""

    def publish(self, records: Records, waited: bool) -> int:
        """Append records; see `Queue.publish`."""

    def takes(self, count: int, size: int) -> bool:
        """Whether it refuses none of so many messages, of so many bytes of bodies, at once."""


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


class Post:
    """Publishes for the broker.

    Args:
        passage: the way through exchanges that remember.
        recipient: a queue by its name.
        now: microseconds since 1970.
    """

    def __init__(
        self,
        routing: PostRouting,
        passage: Callable[[], Passage],
        recipient: Callable[[str], Recipient],
        now: Callable[[], int],
    ) -> None:
        self._routing = routing
        self._passage = passage
        self._recipient = recipient
        self._now = now

    def publish(
        self,
        exchange: str,
        messages: Sequence[Outgoing],
        attributes: int,
        origin: bytes | None = None,
    ) -> Posted:
        """Publish messages to an exchange; one that is not there takes none.

        Args:
            attributes: of their batches, but KEY_COLUMN.
            origin: name of the exchange that they are said to come from; None: this one.

        Raises:
            JournalFailed: the disk failed before; some may be in their queues, in memory.
        """
        origin = exchange.encode() if origin is None else origin
        try:
            if self._routing.remembers(exchange):
                return self._through_memories(exchange, messages, attributes, origin)
            chosen, untaken = self._chosen(exchange, messages)
        except ExchangeNotFound:
            return Posted(0, 0, frozenset(range(len(messages))))
        return self._delivered(chosen, untaken, messages, attributes, origin)

    def _through_memories(
        self, exchange: str, messages: Sequence[Outgoing], attributes: int, origin: bytes
    ) -> Posted:
        # One by one: what becomes of a message may hang on the one before it.
        written = durable = 0
        untaken: set[int] = set()
        refused: set[int] = set()
        for place, message in enumerate(messages):
            posted = self._remembered(exchange, message, attributes, origin)
            written, durable = max(written, posted.written), max(durable, posted.durable)
            if posted.untaken:
                untaken.add(place)
            if posted.refused:
                refused.add(place)
        return Posted(written, durable, frozenset(untaken), frozenset(refused))

    def _remembered(
        self, exchange: str, message: Outgoing, attributes: int, origin: bytes
    ) -> Posted:
        passage = self._passage()
        names = passage.route(0, exchange, message.keys, decoded_message(message.properties)) or ()
        chosen = {name: [0] for name in names if name not in message.not_to}
        untaken = set() if names or passage.duplicates else {0}
        size = len(chosen) * (len(message.body) + len(message.properties))
        try:
            with passage.together(size):
                posted = self._delivered(chosen, untaken, (message,), attributes, origin)
                taken = bool(chosen) and not posted.untaken
                passage.remember(
                    {0: bool(posted.written or posted.durable)} if taken else {},
                    bool(attributes & PERSISTENT),
                    lambda places: self._encoded((message,), places, attributes, origin),
                    written=posted.written,
                    durable=posted.durable,
                )
        except TooLargeToRemember:
            return Posted(0, 0, frozenset((0,)))
        written, durable = (
            max(posted.written, passage.written),
            max(posted.durable, passage.durable),
        )
        return Posted(written, durable, posted.untaken, posted.refused)

    def _delivered(
        self,
        chosen: dict[str, list[int]],
        unrouted: set[int],
        messages: Sequence[Outgoing],
        attributes: int,
        origin: bytes,
    ) -> Posted:
        written = durable = 0
        refused: set[int] = set()
        made: dict[tuple[int, ...], Records] = {}
        for name, places in chosen.items():
            selection = tuple(places)
            part = made.get(selection)
            if part is None:
                part = made[selection] = self._encoded(messages, selection, attributes, origin)
            queue = self._recipient(name)
            try:
                position = queue.publish(part, waited=True)
            except PublishRefused as error:
                position = error.position
                refused.update(places[at] for at in error.refused)
            if queue.durability is Durability.DISK:
                durable = max(durable, position)
            else:
                written = max(written, position)
        return Posted(written, durable, frozenset(unrouted | refused), frozenset(refused))

    def _chosen(
        self, exchange: str, messages: Sequence[Outgoing]
    ) -> tuple[dict[str, list[int]], set[int]]:
        # The messages of each queue in order, and those that none gets.
        chosen: dict[str, list[int]] = {}
        untaken: set[int] = set()
        reads_headers = self._routing.needs_headers(exchange)
        for place, message in enumerate(messages):
            seen = decoded_message(message.properties) if reads_headers else BARE_MESSAGE
            names = self._routing.route_all(exchange, message.keys, seen)
            if not names:
                untaken.add(place)
            for name in names:
                if name not in message.not_to:
                    chosen.setdefault(name, []).append(place)
        return chosen, untaken

    def _encoded(
        self, messages: Sequence[Outgoing], selection: Sequence[int], attributes: int, origin: bytes
    ) -> Records:
        source, rows = bytearray(), array("i")
        for place in selection:
            message = messages[place]
            for part in (message.keys[0], message.properties, message.body):
                rows.extend((len(source), len(part)))
                source += part
        keys = {messages[place].keys[0] for place in selection}
        batch: Records = encode_records(
            memoryview(source),
            memoryview(rows),
            None,
            len(selection),
            origin,
            keys.pop() if len(keys) == 1 else None,
            attributes,
            self._now(),
        )
        return batch


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
