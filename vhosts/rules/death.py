"""The headers of a dead letter, which say when, where and why its message died; and the publishing of dead
letters to the exchange of their queue.

Headers, as RabbitMQ writes them: `x-death`, an array of tables, the latest first, one for each queue and
reason; `x-first-death-*` of the first death of all, `x-last-death-*` of the latest.

A publisher may write such headers, too. They are delivered, and mean nothing here: the publisher's entries of
`x-death` stand behind the broker's, which OWN_DEATHS of the batch counts.

Source: RabbitMQ's documentation of dead letter exchanges, and `rabbit_dead_letter.erl` of 3.10.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from typing import NamedTuple

from routelog.log_backend import (
    BLIND_COPIES,
    EXPIRATION,
    OWN_DEATHS,
    OWN_DEATHS_SHIFT,
    PERSISTENT,
    MalformedProperties,
    Reason,
    Records,
    array_items,
    table_fields,
    whole_number,
)
from routelog.vhosts.messages.property_list import PropertyList, encode_table
from routelog.vhosts.publishing.internal_publish import OutgoingMessage, Settle
from routelog.vhosts.publishing.internal_publisher import Done, InternalPublisher

_OWN_DEATHS_MAX = OWN_DEATHS >> OWN_DEATHS_SHIFT  # older ones count as a publisher's
_WHAT = ("queue", "reason", "exchange")
SHORT_STRING_BYTES_MAX = 255  # a name or a key on the wire: AMQP 0-9-1, 4.2.5.3
DEATH_HEADERS = (
    b"x-death",
    *(f"x-{which}-death-{what}".encode() for which in ("first", "last") for what in _WHAT),
)


class DeathReason(StrEnum):
    """Why a message left its queue unconsumed."""

    REJECTED = "rejected"
    EXPIRED = "expired"
    MAXLEN = "maxlen"
    DELIVERY_LIMIT = "delivery_limit"

    @property
    def settlement(self) -> Reason:
        """The reason of the settlement in the queue's cursor."""
        rejected = self in (DeathReason.REJECTED, DeathReason.DELIVERY_LIMIT)
        return Reason.REJECTED if rejected else Reason.EXPIRED


@dataclass(frozen=True, slots=True)
class Death:
    """The death of a message of a queue, at a time (seconds since 1970).

    Attributes:
        routing_key: of the dead letter; None: it keeps the keys of its message.
    """

    queue: str
    reason: DeathReason
    time: int
    routing_key: bytes | None


class DeadLetter(NamedTuple):
    """The parts of a dead letter that differ from its message.

    Attributes:
        properties: its property list.
        keys: routing keys; it carries the first.
        cycles_to: queues that it must not reach again: it would cycle without ever being rejected.
        own_deaths: entries at the head of its `x-death` that the broker wrote.
    """

    properties: bytes
    keys: Sequence[bytes]
    cycles_to: frozenset[str]
    own_deaths: int


def own_deaths(attributes: int) -> int:
    """How many entries at the head of the `x-death` of a batch's records the broker wrote."""
    return (attributes & OWN_DEATHS) >> OWN_DEATHS_SHIFT


def dead_letter(
    properties: bytes, own_count: int, exchange: bytes, routing_key: bytes, death: Death
) -> DeadLetter:
    """The dead letter of a message; one whose properties are malformed keeps them as they are.

    Args:
        own_count: entries at the head of its `x-death` that the broker wrote.
    """
    try:
        parts = PropertyList(properties)
    except MalformedProperties:
        return DeadLetter(properties, (death.routing_key or routing_key,), frozenset(), 0)
    headers = parts.headers
    copies = strings(headers.get(b"CC", b""))
    own = {
        b"count": _long(1),
        b"reason": _text(death.reason.encode()),
        b"queue": _text(death.queue.encode()),
        b"time": b"T" + death.time.to_bytes(8, "big"),
        b"exchange": _text(exchange),
        b"routing-keys": _array([_text(key) for key in (routing_key, *copies)]),
    }
    expiration = parts.pop(EXPIRATION)
    if expiration is not None:
        own[b"original-expiration"] = _text(expiration)
    deaths = _merged(_tables(headers.get(b"x-death", b"")))
    deaths, own_count = _with_death(deaths, own_count, own)
    headers[b"x-death"] = _array([b"F" + encode_table(each) for each in deaths])
    _mark(headers, "x-first-death", deaths[-1], replace=False)
    _mark(headers, "x-last-death", own, replace=True)
    if death.routing_key is None:
        blind = strings(headers.get(b"BCC", b""))
        keys: tuple[bytes, ...] = (routing_key, *copies, *blind)
    else:
        keys = (death.routing_key,)
        headers.pop(b"CC", None)
        headers.pop(b"BCC", None)
    return DeadLetter(parts.encode(), keys, _cycles(deaths[:own_count]), own_count)


class LastDeath(NamedTuple):
    """Where a message died last, and how it had come there."""

    queue: str
    exchange: bytes
    routing_key: bytes


def last_death(headers: Mapping[bytes, bytes], own_count: int) -> LastDeath | None:
    """The newest death of a message that the broker wrote into its headers; None: there is none.

    Args:
        own_count: entries at the head of its `x-death` that the broker wrote.
    """
    if not own_count:
        return None
    newest = _tables(headers[b"x-death"])[0]
    keys = strings(newest[b"routing-keys"])
    return LastDeath(newest[b"queue"][5:].decode(), newest[b"exchange"][5:], keys[0])


def _merged(deaths: list[dict[bytes, bytes]]) -> list[dict[bytes, bytes]]:
    # As in RabbitMQ: brokers and clients of old wrote an entry for each death, without a count. Those of one
    # queue and reason become one, with the first one's fields. The broker's own come first, and all differ.
    if len(deaths) < 2:
        return deaths
    firsts: dict[tuple[bytes, bytes], dict[bytes, bytes]] = {}
    sizes: dict[tuple[bytes, bytes], int] = {}
    for each in deaths:
        key = each.get(b"queue", b""), each.get(b"reason", b"")
        firsts.setdefault(key, each)
        sizes[key] = sizes.get(key, 0) + 1
    return [{b"count": _long(sizes[key]), **each} for key, each in firsts.items()]


def _with_death(
    deaths: list[dict[bytes, bytes]], own_count: int, own: dict[bytes, bytes]
) -> tuple[list[dict[bytes, bytes]], int]:
    # An earlier death in the same queue for the same reason is counted. It keeps its other fields if the broker
    # wrote it: what a publisher made up says nothing of where the message was.
    for at, each in enumerate(deaths):
        if each.get(b"queue") == own[b"queue"] and each.get(b"reason") == own[b"reason"]:
            kept = each if at < own_count else own
            counted = {**kept, b"count": _long(_count(each.get(b"count", b"")) + 1)}
            deaths = [counted, *deaths[:at], *deaths[at + 1 :]]
            return deaths, own_count if at < own_count else min(own_count + 1, _OWN_DEATHS_MAX)
    return [own, *deaths], min(own_count + 1, _OWN_DEATHS_MAX)


def _mark(
    headers: dict[bytes, bytes], prefix: str, death: dict[bytes, bytes], *, replace: bool
) -> None:
    if not replace and f"{prefix}-reason".encode() in headers:
        return
    for what in _WHAT:
        value = death.get(what.encode())
        if value is not None:
            headers[f"{prefix}-{what}".encode()] = value


def _cycles(deaths: list[dict[bytes, bytes]]) -> frozenset[str]:
    # The queues that it came through since its last rejection.
    queues: list[str] = []
    for each in deaths:
        if each.get(b"reason") == _text(b"rejected"):
            break
        queues.append(each.get(b"queue", b"")[5:].decode(errors="replace"))
    return frozenset(queues)


def _tables(value: bytes) -> list[dict[bytes, bytes]]:
    return [dict(table_fields(each, 5, len(each))) for each in _items(value) if each[:1] == b"F"]


def strings(value: bytes) -> list[bytes]:
    """The routing keys in the array of a header, with its letter; none when it is no array."""
    return [
        each[5:]
        for each in _items(value)
        if each[:1] == b"S" and len(each) <= 5 + SHORT_STRING_BYTES_MAX
    ]


def copied_to(parts: PropertyList) -> Iterator[bytes]:
    """The routing keys of a message's copies: those of its headers CC and BCC."""
    return chain.from_iterable(strings(parts.headers.get(name, b"")) for name in (b"CC", b"BCC"))


def _items(value: bytes) -> list[bytes]:
    # The elements of an array, with their type letters; none when it is no array.
    return array_items(value, 5, len(value)) if value[:1] == b"A" else []


def _count(value: bytes) -> int:
    return max(0, whole_number(value[0], value[1:]) or 0) if value else 0


def _long(number: int) -> bytes:
    return b"l" + min(number, (1 << 63) - 1).to_bytes(8, "big")


def _text(content: bytes) -> bytes:
    return b"S" + len(content).to_bytes(4, "big") + content


def _array(items: Sequence[bytes]) -> bytes:
    content = b"".join(items)
    return b"A" + len(content).to_bytes(4, "big") + content


DeadMessage = tuple[Records, int]  # and its index there


class DeadLetterPublisher:
    """Makes dead letters of messages and publishes them."""

    def __init__(self, post: InternalPublisher) -> None:
        self._post = post

    def send(
        self,
        dead: Sequence[DeadMessage],
        exchange: str,
        death: Death,
        done: Done,
        settle: Settle | None = None,
        *,
        keeps_refused: bool = False,
        taken_by: frozenset[str] = frozenset(),
    ) -> None:
        """Publish the dead letters of some messages.

        Args:
            dead: of batches with the same attributes and exchange.
            taken_by: queues that have the letters since they were tried before.
            done, settle, keeps_refused: see `InternalPublisher.begin`; letters dropped because they would
                cycle count as taken.
        """
        attributes = dead[0][0].attributes & (PERSISTENT | BLIND_COPIES)
        letters = _Letters(dead, death, taken_by)
        origin = exchange.encode()
        self._post.begin(
            exchange, letters, attributes, origin, done, settle, keeps_refused=keeps_refused
        )


class _Letters:
    # See `OutgoingMessages`. Neighbours often have equal properties and keys; their letter is made once.

    def __init__(self, dead: Sequence[DeadMessage], death: Death, taken_by: frozenset[str]) -> None:
        self._dead = dead
        self._death = death
        self._taken_by = taken_by
        self._letters: dict[tuple[bytes, bytes], DeadLetter] = {}

    def __len__(self) -> int:
        return len(self._dead)

    def __getitem__(self, place: int) -> OutgoingMessage:
        records, at = self._dead[place]
        origin = (records.properties(at), records.routing_key(at))
        letter = self._letters.get(origin)
        if letter is None:
            own = own_deaths(records.attributes)
            letter = dead_letter(origin[0], own, records.exchange, origin[1], self._death)
            self._letters[origin] = letter
        not_to = letter.cycles_to | self._taken_by
        return OutgoingMessage(
            letter.properties, letter.keys, records.body(at), not_to, letter.own_deaths
        )
