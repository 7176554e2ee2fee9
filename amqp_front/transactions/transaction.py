"""An AMQP transaction: publishes and settlements of a channel that wait for tx.commit."""

from array import array

from routelog.amqp_front.consuming.unacked import Taken, UnackedRun, messages_of
from routelog.amqp_front.wire.command import LaidOutRun, PublishRun
from routelog.amqp_front.wire.errors import PRECONDITION_FAILED, SoftError
from routelog.broker import Charge, IntakeShare
from routelog.log_backend import Reason
from routelog.vhosts import ReturnReason

TRANSACTION_BYTES_MAX = 128 * 1024 * 1024  # in memory for one commit
# Messages of one turn of the loop: some 10 us for one that is looked into.
TRANSACTION_TURN_MAX = 256
# What a run and a settlement cost beside their content, in memory or in time.
ENTRY_BYTES = 1_024
# Of a run, which is planned in one step: 0.5 ms.
RUN_RECORDS_MAX = 4_096
RUN_BYTES_MAX = 1_048_576
# From a routing key's end to the properties: flags, the frame's end, and 19 bytes of the header frame.
KEY_GAP = 21


class KeptRun:
    """Neighbouring publishes to one exchange with equal flags, however they were read.

    Attributes:
        bytes: memory of the messages.

    Args:
        first: its messages are to be added, too.
    """

    __slots__ = ("_channel", "_count", "_key", "_kind", "_property_flags", "_rows", "_source")

    def __init__(self, first: PublishRun) -> None:
        self._channel = first.channel
        self._kind = _kind_of(first)
        self._key = first.routing_key
        self._property_flags = 0
        self._source = bytearray()
        self._rows = array("i")
        self._count = 0

    @property
    def bytes(self) -> int:
        """Of the contents, and of the table of their places."""
        return len(self._source) + self._rows.itemsize * len(self._rows)

    def takes(self, run: PublishRun) -> bool:
        """Whether the messages of a run may be added."""
        return (
            self._count + run.count <= RUN_RECORDS_MAX
            and len(self._source) < RUN_BYTES_MAX
            and self._kind == _kind_of(run)
        )

    def add(self, run: PublishRun) -> None:
        """Copy messages out of the receive buffer, with the frames between them."""
        rows = array("i")
        rows.frombytes(run.rows[: 6 * run.count].tobytes())
        begin, end = run.begin(0), rows[-2] + rows[-1]
        shift = len(self._source) - begin
        for column in (2, 4):
            rows[column::6] = array("i", [place + shift for place in rows[column::6]])
        # Messages with equal methods point to the first one's key; each has one of its own, too.
        keys = zip(rows[2::6], rows[1::6], strict=True)
        rows[0::6] = array("i", [place - KEY_GAP - length for place, length in keys])
        self._source += run.source[begin:end]
        self._rows += rows
        self._count += run.count
        if run.routing_key != self._key:
            self._key = None
        self._property_flags |= run.property_flags

    def run(self) -> PublishRun:
        """All of them; nothing can be added any more."""
        exchange, persistent, mandatory = self._kind
        return PublishRun(
            self._channel,
            memoryview(self._source),
            memoryview(self._rows),
            self._count,
            exchange,
            self._key,
            int(mandatory),
            self._property_flags,
            persistent,
        )


def _kind_of(run: PublishRun) -> tuple[bytes, bool, bool]:
    return run.exchange, run.persistent, run.mandatory


Kept = KeptRun | LaidOutRun


class Transaction:
    """What tx.commit will carry out, in order.

    Attributes:
        kept: what is to be published, in order; nothing can be added any more when it is planned.
        taken: deliveries that are settled or returned with the commit, by how; until then their consumers
            hold them.
        messages, settlements: how many are published, and how many settled or returned.

    Args:
        intake: what it is charged to.
    """

    def __init__(self, intake: IntakeShare) -> None:
        self._intake = intake
        self._charge: Charge | None = None
        self.taken: dict[Reason | ReturnReason, list[UnackedRun]] = {}
        self.kept: list[Kept] = []
        self.messages = 0
        self.settlements = 0
        self._bytes = 0

    @property
    def publishes(self) -> bool:
        """There is something to publish."""
        return bool(self.kept)

    def publish(self, run: PublishRun) -> None:
        """Keep a checked publish: its bytes are copied out of the receive buffer, unless it has its own.

        Raises:
            SoftError: 406, it grows beyond TRANSACTION_BYTES_MAX, or the connection, its user or the node
                keeps too much.
        """
        self.messages += run.count
        if isinstance(run, LaidOutRun):
            self._grow(ENTRY_BYTES + len(run.source) + run.rows.nbytes)
            self.kept.append(run)
            return
        last = self.kept[-1] if self.kept else None
        size = 0
        if not isinstance(last, KeptRun) or not last.takes(run):
            last = KeptRun(run)
            self.kept.append(last)
            size = ENTRY_BYTES
        before = last.bytes
        last.add(run)
        self._grow(size + last.bytes - before)

    def settle(self, taken: Taken) -> None:
        """Keep a settlement.

        Raises:
            SoftError: as for `publish`.
        """
        self.settlements += messages_of(taken.runs)
        self.taken.setdefault(taken.outcome, []).extend(taken.runs)
        self._grow(ENTRY_BYTES * (1 + len(taken.runs)))

    def _grow(self, size: int) -> None:
        self._bytes += size
        if self._bytes > TRANSACTION_BYTES_MAX:
            reason = f"a transaction holds more than {TRANSACTION_BYTES_MAX} bytes"
            raise SoftError(PRECONDITION_FAILED, reason)
        if self._charge is None:
            self._charge = self._intake.charge(size)
        else:
            self._charge.grow(size)
