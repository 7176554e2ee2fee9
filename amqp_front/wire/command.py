# cython: annotation_typing=False, wraparound=True
# mypy: allow-untyped-decorators, no-warn-return-any, disable-error-code="index,name-defined"
"""Commands: what received bytes are cut into.

A run stands for many messages; its numbers and slices are all that the rest of the broker looks at.
"""

from array import array

import cython

from routelog.log_backend import Records, SingleRecord, encode_parts, encode_records, routing_keys

RUN_RECORDS_MAX = 8_192  # rows of the record table; a read of small messages holds about 4,000

CARBON_COPY = 1  # in property flags, where the wire has 0: the headers hold CC or BCC

# What a settlement does with its messages; REFUSE requeues them, too: by basic.reject.
ACK, REQUEUE, DISCARD, REFUSE = range(4)


class Frame:
    """One frame, out of a run: its payload is a copy."""

    __slots__ = ("channel", "kind", "payload")

    def __init__(self, kind: int, channel: int, payload: bytes) -> None:
        self.kind = kind
        self.channel = channel
        self.payload = payload


class BegunPublish:
    """A publish whose content has begun to come: its method and its content header, both well-formed.

    Attributes:
        flags: mandatory, 1; immediate, 2.
        properties: flags and values, as on the wire.
        property_flags, persistent: see `PublishRun`.
        body_bytes: in the frames that follow.
    """

    method_id = 40

    __slots__ = (
        "body_bytes",
        "channel",
        "exchange",
        "flags",
        "persistent",
        "properties",
        "property_flags",
        "routing_key",
    )

    def __init__(
        self,
        channel: int,
        exchange: bytes,
        routing_key: bytes,
        flags: int,
        properties: bytes,
        property_flags: int,
        persistent: bool,
        body_bytes: int,
    ) -> None:
        self.channel = channel
        self.exchange = exchange
        self.routing_key = routing_key
        self.flags = flags
        self.properties = properties
        self.property_flags = property_flags
        self.persistent = persistent
        self.body_bytes = body_bytes


@cython.final
@cython.cclass
class SettleRun:
    """Acks, nacks or rejects that came in a row on one channel.

    Attributes:
        outcome: ACK, REQUEUE, DISCARD or REFUSE.
        method_id: of basic.ack or basic.nack, for the answer to a mistake.
        first, last: delivery tags, inclusive.
        multiple: everything up to `last` that is unsettled (0: all of it); `first` means nothing then.
    """

    __slots__ = ("channel", "first", "last", "multiple", "outcome")

    def __init__(self, channel: int, outcome: int, first: int, last: int, multiple: bool) -> None:
        self.channel = channel
        self.outcome = outcome
        self.first = first
        self.last = last
        self.multiple = multiple

    @property
    def method_id(self) -> int:
        """Of the method that did it."""
        return {ACK: 80, REFUSE: 90}.get(self.outcome, 120)


@cython.cclass
class PublishRun:
    """Publishes that came in a row on one channel to one exchange, with the same flags.

    Attributes:
        source: the buffer with the contents; `rows` is the record table into it.
        count: messages, at least 1.
        routing_key: shared by all of them, or None: `keys()` has them.
        mandatory, immediate: the publish flags.
        property_flags: the property flags of all messages together, with CARBON_COPY.
        persistent: delivery mode 2.
        method_id: of basic.publish, for the answer to a mistake.
    """

    method_id = 40

    __slots__ = (
        "channel",
        "count",
        "exchange",
        "immediate",
        "mandatory",
        "persistent",
        "property_flags",
        "routing_key",
        "rows",
        "source",
    )

    def __init__(
        self,
        channel: int,
        source: memoryview,
        rows: memoryview,
        count: int,
        exchange: bytes,
        routing_key: bytes | None,
        flags: int,
        property_flags: int,
        persistent: bool,
    ) -> None:
        self.channel = channel
        self.source = source
        self.rows = rows
        self.count = count
        self.exchange = exchange
        self.routing_key = routing_key
        self.mandatory = bool(flags & 1)
        self.immediate = bool(flags & 2)
        self.property_flags = property_flags
        self.persistent = persistent

    @cython.ccall
    def records(self, attributes: int, time: int) -> Records:
        """Copy the messages into the columns of a batch."""
        records: Records = encode_records(
            self.source,
            self.rows,
            None,
            self.count,
            self.exchange,
            self.routing_key,
            attributes,
            time,
        )
        return records

    def parts(self, selections: list[list[int]], attributes: int, time: int) -> list[Records]:
        """Copy some of the messages, by index, into a batch for each selection; none is empty."""
        if len(selections) == 1 and len(selections[0]) == self.count:
            return [self.records(attributes, time)]
        parts: list[Records] = encode_parts(
            self.source,
            self.rows,
            selections,
            self.exchange,
            self.routing_key,
            attributes,
            time,
        )
        return parts

    def part(self, first: int, count: int) -> "PublishRun":
        """Neighbouring messages as a run of their own, in the same buffer."""
        return PublishRun(
            self.channel,
            self.source,
            self.rows[6 * first : 6 * (first + count)],
            count,
            self.exchange,
            self.routing_key,
            self.mandatory | self.immediate << 1,
            self.property_flags,
            self.persistent,
        )

    def kept(self, count: int) -> "PublishRun":
        """The first messages as a run of their own, in a buffer of its own: up to 1 MiB takes 0.1 ms."""
        end = self.rows[6 * count - 2] + self.rows[6 * count - 1]
        rows = array("i")
        rows.frombytes(self.rows[: 6 * count].tobytes())
        return PublishRun(
            self.channel,
            memoryview(bytearray(self.source[:end])),
            memoryview(rows),
            count,
            self.exchange,
            self.routing_key,
            self.mandatory | self.immediate << 1,
            self.property_flags,
            self.persistent,
        )

    def begin(self, index: int) -> int:
        """Where in the buffer a message's first frame begins."""
        key_length, properties_at = self.rows[6 * index + 1], self.rows[6 * index + 2]
        # Before the properties: 19 bytes of the header frame; before that the method's, 17 and its names.
        return properties_at - 19 - (17 + len(self.exchange) + key_length)

    def bodies_bytes(self, count: int) -> int:
        """Bytes of the bodies of the first messages."""
        return sum(self.rows[5 : 6 * count : 6])

    def keys(self) -> list[bytes]:
        """The routing key of each message."""
        if self.routing_key is not None:
            return [self.routing_key] * self.count
        keys: list[bytes] = routing_keys(self.source, self.rows, self.count)
        return keys

    def properties(self, index: int) -> bytes:
        """Property flags and values of one message, as on the wire."""
        return self._part(6 * index + 2)

    def body(self, index: int) -> bytes:
        """Body of one message."""
        return self._part(6 * index + 4)

    def _part(self, at: int) -> bytes:
        start = self.rows[at]
        return bytes(self.source[start : start + self.rows[at + 1]])


@cython.final
@cython.cclass
class LaidOutRun(PublishRun):
    """A run of one message that lies as it will in its batch: carrying it out copies nothing."""

    __slots__ = ("_record",)

    def __init__(
        self,
        record: SingleRecord,
        channel: int,
        exchange: bytes,
        routing_key: bytes,
        flags: int,
        property_flags: int,
        persistent: bool,
    ) -> None:
        PublishRun.__init__(
            self,
            channel,
            record.source,
            memoryview(array("i", record.row)),
            1,
            exchange,
            routing_key,
            flags,
            property_flags,
            persistent,
        )
        self._record = record

    @cython.ccall
    def records(self, attributes: int, time: int) -> Records:
        """See `PublishRun`."""
        return self._record.records(attributes, time)


Command = PublishRun | BegunPublish | SettleRun | Frame
