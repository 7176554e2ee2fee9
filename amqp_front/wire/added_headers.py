"""Headers that the broker adds to what it delivers: 64-bit integers, with a value for each message.

    field    name length u8 | name | 6C | value i64

Source: AMQP 0-9-1 specification, section 4.2.5.5, with the type letters as RabbitMQ reads them.
"""

from array import array
from collections.abc import Mapping, Sequence

from routelog.log_backend import Records


class AddedHeaders:
    """The headers that are added to the messages of one delivery.

    Attributes:
        names: of the headers, in their order.
        fields: of one message, with zeros for its values.
        values: a row for each message.

    Args:
        count: of messages.
        columns: by name, a value for each message.
    """

    __slots__ = ("fields", "names", "values")

    def __init__(self, count: int, columns: Mapping[bytes, Sequence[int]]) -> None:
        self.names = tuple(columns)
        self.fields = b"".join(bytes((len(name),)) + name + b"l" + bytes(8) for name in columns)
        self.values = array("q", bytes(8 * count * len(columns)))
        for place, column in enumerate(columns.values()):
            self.values[place :: len(columns)] = array("q", column)

    def of(self, message: int) -> dict[bytes, int]:
        """The headers of one message, by its place in the delivery."""
        count = len(self.names)
        row = self.values[message * count : (message + 1) * count]
        return dict(zip(self.names, row, strict=True))

    def may_be_in(self, records: Records, first: int, count: int) -> bool:
        """Whether a message of a slice may have been published with one of the headers."""
        published = records.property_lists(first, count)
        return any(name in published for name in self.names)


NO_HEADERS = AddedHeaders(0, {})
