"""Publishes that a transaction keeps: those to one exchange with equal flags, as a run with bytes of its own.

What is published one by one is then routed, encoded and appended as what comes in one read.
"""

from array import array

from routelog.amqp_front.transactions.buffered_bytes import BufferedBytes
from routelog.amqp_front.wire.command import CARBON_COPY, PublishRun
from routelog.log_backend import EXPIRATION

Kind = tuple[bytes, int, bool, bool]


def kind_of(run: PublishRun) -> Kind:
    """What all messages of a kept run have in common: their batches say so once."""
    deciding = run.property_flags & (EXPIRATION | CARBON_COPY)
    return run.exchange, deciding, run.persistent, run.mandatory


class BufferedRun:
    """Messages of one kind, whatever was published between them.

    Attributes:
        bytes: memory of the messages.

    Args:
        first: its messages are to be added, too.
    """

    __slots__ = ("_count", "_first", "_key", "_property_flags", "_rows", "_source")

    def __init__(self, first: PublishRun) -> None:
        self._first = first.part(0, 1)  # for what they have in common; its buffer is not looked at
        self._key = first.routing_key
        self._property_flags = 0
        self._source = BufferedBytes()
        self._rows = BufferedBytes()
        self._count = 0

    @property
    def bytes(self) -> int:
        """Of the contents, and of the table of their places."""
        return self._source.size + self._rows.size

    def add(self, run: PublishRun) -> None:
        """Copy messages out of the receive buffer."""
        source, rows = bytearray(), array("i")
        begin = self._source.size
        keys = run.keys()
        for at in range(run.count):
            for part in (keys[at], run.properties(at), run.body(at)):
                rows.extend((begin + len(source), len(part)))
                source += part
        self._source.append(source)
        self._rows.append(memoryview(rows).cast("B"))
        if run.routing_key != self._key:
            self._key = None
        self._property_flags |= run.property_flags
        self._count += run.count

    def run(self) -> PublishRun:
        """All of them; nothing can be added any more."""
        first = self._first
        return PublishRun(
            first.channel,
            self._source.view(),
            self._rows.view().cast("i"),
            self._count,
            first.exchange,
            self._key,
            first.mandatory | first.immediate << 1,
            self._property_flags,
            first.persistent,
        )
