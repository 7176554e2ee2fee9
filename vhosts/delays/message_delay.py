"""The delay of a message: read from its property list, and negated when it is over.

A negative header `x-delay` says how long the message was held; consumers see it.

Source: `rabbit_delayed_message_utils.erl` of RabbitMQ's delayed message exchange.
"""

from bisect import bisect_right
from collections.abc import Sequence

from routelog.exchanges import DELAY_HEADER, delay_milliseconds
from routelog.log_backend import MalformedProperties, StoredRecord
from routelog.vhosts.arguments.argument_table import decode_arguments
from routelog.vhosts.messages.property_list import PropertyList
from routelog.vhosts.publishing.internal_publish import OutgoingMessage
from routelog.vhosts.rules.death import copied_to

MILLISECOND = 1_000  # us
_SECOND = 1_000_000

# Segments are removed from the oldest on. Messages of similar delays share a part, so that a message that waits
# for a year does not keep the segments of messages that wait for a minute.
DELAY_CLASSES = tuple(
    seconds * _SECOND for seconds in (10, 60, 600, 3_600, 8 * 3_600, 2 * 86_400, 30 * 86_400)
)
PARTS = len(DELAY_CLASSES) + 1

_HEADER = DELAY_HEADER.encode()
_FIELD = bytes((len(_HEADER),)) + _HEADER
_INT_MIN = -(2**31)


def part_of(delay: int) -> int:
    """The part of a log for messages with this delay (us)."""
    return bisect_right(DELAY_CLASSES, delay)


def message_delay(properties: bytes) -> int:
    """How long a message is held, in microseconds."""
    try:
        return _milliseconds(PropertyList(properties)) * MILLISECOND
    except MalformedProperties:
        return 0


def due_letter(record: StoredRecord) -> OutgoingMessage:
    """A message whose delay is over, with its delay negated, so that no exchange holds it again."""
    parts = PropertyList(record.properties)
    delay = -_milliseconds(parts)
    value = b"I" + delay.to_bytes(4, "big", signed=True) if delay >= _INT_MIN else _long(delay)
    parts.headers[_HEADER] = value
    keys = (record.routing_key, *copied_to(parts))
    return OutgoingMessage(parts.encode(), keys, record.body)


class DueLetters:
    """Messages whose delay is over, see `OutgoingMessages`, each with the queues that have it already."""

    def __init__(self, records: Sequence[tuple[StoredRecord, frozenset[str]]]) -> None:
        self._records = records

    def __len__(self) -> int:
        return len(self._records)

    def __getitem__(self, place: int) -> OutgoingMessage:
        record, taken_by = self._records[place]
        return due_letter(record)._replace(not_to=taken_by)


def _milliseconds(parts: PropertyList) -> int:
    value = parts.headers.get(_HEADER)
    if value is None:
        return 0
    try:
        return delay_milliseconds(decode_arguments(_FIELD + value))
    except MalformedProperties:
        return 0


def _long(number: int) -> bytes:
    return b"l" + number.to_bytes(8, "big", signed=True)
