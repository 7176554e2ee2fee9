"""Publishes that a transaction keeps: neighbouring runs become one, with bytes of its own.

What is published one by one is then routed, encoded and appended as what comes in one read.
"""

from array import array

from amqp_front.command import CARBON_COPY, RUN_RECORDS_MAX, PublishRun

KEPT_BYTES_MAX = 2 * 1_048_576  # encoded in one go, with its checksum: about 1 ms


class KeptRun:
    """Messages of neighbouring runs to one exchange, with equal flags.

    Attributes:
        bytes: memory of the messages.

    Args:
        first: its messages are to be added, too.
    """

    __slots__ = ("_count", "_first", "_key", "_rows", "_source")

    def __init__(self, first: PublishRun) -> None:
        self._first = first.part(0, 1)  # for what they have in common; its buffer is not looked at
        self._key = first.routing_key
        self._source = bytearray()
        self._rows = array("i")
        self._count = 0

    @property
    def bytes(self) -> int:
        """Of the contents, and of the table of their places."""
        return len(self._source) + self._rows.itemsize * len(self._rows)

    def takes(self, run: PublishRun) -> bool:
        """Whether the messages of a run may be added."""
        first = self._first
        return (
            self._count + run.count <= RUN_RECORDS_MAX
            and len(self._source) < KEPT_BYTES_MAX
            and first.exchange == run.exchange
            and first.property_flags == run.property_flags
            and first.persistent is run.persistent
            and first.mandatory is run.mandatory
            and not run.property_flags & CARBON_COPY  # such a run is of one message
        )

    def add(self, run: PublishRun) -> None:
        """Copy messages out of the receive buffer."""
        source, rows = self._source, self._rows
        keys = run.keys()
        for at in range(run.count):
            for part in (keys[at], run.properties(at), run.body(at)):
                rows.extend((len(source), len(part)))
                source += part
        if run.routing_key != self._key:
            self._key = None
        self._count += run.count

    def run(self) -> PublishRun:
        """All of them; nothing can be added any more."""
        first = self._first
        return PublishRun(
            first.channel,
            memoryview(self._source),
            memoryview(self._rows),
            self._count,
            first.exchange,
            self._key,
            first.mandatory | first.immediate << 1,
            first.property_flags,
            first.persistent,
        )
