"""A test of a whole batch: does it hold what a wanted message must have?

Octets that are nowhere in a column of a batch are in none of its records. To look through a column takes some
0.5 ns a byte; to look at one record takes microseconds.
"""

from dataclasses import dataclass
from enum import Enum, auto

from routelog.log_backend import Records
from routelog.vhosts.messages.message_header import header_values

SHORT_STRING_BYTES_MAX = 255  # AMQP 0-9-1, 4.2.5.3


class Column(Enum):
    """A column of a batch."""

    ROUTING_KEYS = auto()
    PROPERTIES = auto()
    BODIES = auto()


@dataclass(frozen=True, slots=True)
class RequiredOctets:
    """Octets of which a column must hold one, or no record of the batch is wanted.

    The reverse is not true: octets may span two records, or be part of another value.

    Attributes:
        any_of: if it is empty, no record is wanted.
    """

    column: Column
    any_of: tuple[bytes, ...]

    def may_be_in(self, records: Records) -> bool:
        """Whether the records must be looked at one by one."""
        start, end = _range(records, self.column)
        payload = records.payload
        if isinstance(payload, memoryview):  # it cannot be searched
            payload, start, end = bytes(payload[start:end]), 0, end - start
        return any(payload.find(octets, start, end) >= 0 for octets in self.any_of)


def required_identifier(value: bytes) -> RequiredOctets:
    """What is in the properties of a message with this `message_id`, or this `correlation_id`."""
    return RequiredOctets(Column.PROPERTIES, _short_string(value))


def required_header(name: bytes, key: bytes) -> RequiredOctets:
    """What is in the properties of a message of whose header `header_key` gives this key."""
    values = header_values(key)
    any_of = tuple(field + value for field in _short_string(name) for value in values)
    return RequiredOctets(Column.PROPERTIES, any_of)


def _short_string(content: bytes) -> tuple[bytes, ...]:
    # As on the wire; empty: there is no such string.
    if len(content) > SHORT_STRING_BYTES_MAX:
        return ()
    return (b"%c%b" % (len(content), content),)


def _range(records: Records, column: Column) -> tuple[int, int]:
    # Of the payload.
    if column is Column.ROUTING_KEYS:
        return records.keys_at, records.properties_at
    if column is Column.PROPERTIES:
        return records.properties_at, records.bodies_at
    return records.bodies_at, records.bodies_at + records.bodies_bytes
