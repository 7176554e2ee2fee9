"""The way of dead letters: through the exchange that their queue names, to queues of the vhost."""

import struct
from array import array
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from exchanges import ExchangeNotFound, Route
from log_backend import PERSISTENT, Durability, Records, encode_records
from vhosts.argument_table import decode_arguments
from vhosts.death import DeadLetter, Death, dead_letter
from vhosts.errors import PublishRefused
from vhosts.property_list import MalformedProperties, PropertyList, encode_table


class LetterRouting(Protocol):
    """What the post needs of a vhost's routing."""

    def route(
        self, exchange: str, routing_key: bytes, headers: dict[str, object] | None = None
    ) -> Route:
        """The queues that a message goes to.

        Raises:
            ExchangeNotFound: the exchange is not there.
        """

    def needs_headers(self, exchange: str) -> bool:
        """Whether headers may matter on the way from an exchange."""


class Recipient(Protocol):
    """A queue that messages come to, or what holds them until they go on."""

    @property
    def durability(self) -> Durability:
        """What a position of the journal must reach for it."""

    def publish(self, records: Records, waited: bool) -> int:
        """Append records; see `Queue.publish`."""

    def takes(self, count: int, size: int) -> bool:
        """Whether it refuses none of so many messages, of so many bytes of bodies, at once."""


class Posted(NamedTuple):
    """What became of some letters.

    Attributes:
        written, durable: how far the journal has to come until they are as safe as their queues promise.
        untaken: indexes of those that no queue took, or that one refused; cycles are not among them.
        refused: those of them that one refused.
    """

    written: int
    durable: int
    untaken: frozenset[int]
    refused: frozenset[int] = frozenset()


class Origin(NamedTuple):
    """What letters that are published together have of the messages that they were.

    Attributes:
        exchange: that they show.
        attributes: of their batches.
        body: of a letter, by its index.
    """

    exchange: bytes
    attributes: int
    body: Callable[[int], bytes]


class LetterPost:
    """Makes dead letters of messages and publishes them.

    Args:
        recipient: a queue by its name.
        now: microseconds since 1970.
    """

    def __init__(
        self,
        routing: LetterRouting,
        recipient: Callable[[str], Recipient],
        now: Callable[[], int],
    ) -> None:
        self._routing = routing
        self._recipient = recipient
        self._now = now

    def send(self, records: Records, index: int, count: int, exchange: str, death: Death) -> Posted:
        """Publish the dead letters of some neighbouring messages of a batch.

        Raises:
            JournalFailed: the disk failed before; some may be in their queues, in memory.
        """
        letters = _letters(records, index, count, death)
        attributes = records.attributes & PERSISTENT
        origin = Origin(exchange.encode(), attributes, lambda place: records.body(index + place))
        return self.post(letters, origin, exchange)

    def post(self, letters: Sequence[DeadLetter], origin: Origin, through: str) -> Posted:
        """Publish letters that an exchange routes.

        Raises:
            JournalFailed: as of `send`.
        """
        chosen, unrouted = self._chosen(letters, through)
        untaken: set[int] = set()
        written = durable = 0
        made: dict[tuple[int, ...], Records] = {}
        for name, places in chosen.items():
            selection = tuple(places)
            part = made.get(selection)
            if part is None:
                part = made[selection] = self._encoded(letters, selection, origin)
            queue = self._recipient(name)
            try:
                position = queue.publish(part, waited=True)
            except PublishRefused as refused:
                position = refused.position
                untaken.update(places[at] for at in refused.refused)
            if queue.durability is Durability.DISK:
                durable = max(durable, position)
            else:
                written = max(written, position)
        return Posted(written, durable, frozenset(unrouted | untaken), frozenset(untaken))

    def _chosen(
        self, letters: Sequence[DeadLetter], exchange: str
    ) -> tuple[dict[str, list[int]], set[int]]:
        # The letters of each queue in order, and those that none gets.
        chosen: dict[str, list[int]] = {}
        untaken: set[int] = set()
        try:
            reads_headers = self._routing.needs_headers(exchange)
        except ExchangeNotFound:
            return {}, set(range(len(letters)))
        for place, letter in enumerate(letters):
            headers = _decoded_headers(letter.properties) if reads_headers else None
            names: dict[str, None] = {}
            for key in letter.keys:
                names.update(dict.fromkeys(self._routing.route(exchange, key, headers)))
            if not names:
                untaken.add(place)
            for name in names:
                if name not in letter.cycles_to:
                    chosen.setdefault(name, []).append(place)
        return chosen, untaken

    def _encoded(
        self,
        letters: Sequence[DeadLetter],
        selection: Sequence[int],
        origin: Origin,
    ) -> Records:
        source, rows = bytearray(), array("i")
        for place in selection:
            letter = letters[place]
            for part in (letter.keys[0], letter.properties, origin.body(place)):
                rows.extend((len(source), len(part)))
                source += part
        keys = {letters[place].keys[0] for place in selection}
        batch: Records = encode_records(
            memoryview(source),
            memoryview(rows),
            None,
            len(selection),
            origin.exchange,
            keys.pop() if len(keys) == 1 else None,
            origin.attributes,
            self._now(),
        )
        return batch


def _letters(records: Records, index: int, count: int, death: Death) -> list[DeadLetter]:
    # Neighbours often have the same properties and key, and then the same letter.
    known: dict[tuple[bytes, bytes], DeadLetter] = {}
    letters: list[DeadLetter] = []
    for place in range(index, index + count):
        origin = (records.properties(place), records.routing_key(place))
        letter = known.get(origin)
        if letter is None:
            letter = known[origin] = dead_letter(origin[0], records.exchange, origin[1], death)
        letters.append(letter)
    return letters


def _decoded_headers(properties: bytes) -> dict[str, object]:
    try:
        return decode_arguments(encode_table(PropertyList(properties).headers)[4:])
    except (
        MalformedProperties,
        struct.error,
        ValueError,
        LookupError,
        OverflowError,
        RecursionError,
    ):
        return {}  # nobody checked those of a plain message; what cannot be read matches nothing
