"""Neighbouring publishes that a transaction keeps: a run of each kind, and their order."""

from array import array
from collections.abc import Iterator

from routelog.amqp_front.transactions.buffered_run import BufferedRun, Kind, kind_of
from routelog.amqp_front.wire.command import CARBON_COPY, PublishRun

KEPT_RECORDS_MAX = 65_536
KEPT_BYTES_MAX = 8 * 1_048_576  # let go of at once: 0.5 ms
KINDS_MAX = 256  # their queues are compared


class TransactionBuffer:
    """What was published from one message to another one.

    Attributes:
        bytes: memory of the messages.
        stretches: how many times a message was of another kind than the one before it, the first included.
    """

    __slots__ = ("_copied", "_count", "_counts", "_runs", "_turns", "bytes")

    def __init__(self) -> None:
        self.bytes = 0
        self._count = 0
        self._copied = False
        self._runs: dict[Kind, tuple[int, BufferedRun]] = {}
        # Whose turn it was, and for how many messages.
        self._turns = array("i")
        self._counts = array("i")

    @property
    def stretches(self) -> int:
        """See the class."""
        return len(self._turns)

    def takes(self, run: PublishRun) -> bool:
        """Whether the messages of a run may be added."""
        if self._copied or run.property_flags & CARBON_COPY:  # such a run is of one message
            return not self._count
        return (
            self._count + run.count <= KEPT_RECORDS_MAX
            and self.bytes < KEPT_BYTES_MAX
            and (len(self._runs) < KINDS_MAX or kind_of(run) in self._runs)
        )

    def add(self, run: PublishRun) -> None:
        """Copy messages out of the receive buffer."""
        kind = kind_of(run)
        known = self._runs.get(kind)
        if known is None:
            known = self._runs[kind] = (len(self._runs), BufferedRun(run))
        at, kept = known
        before = kept.bytes
        kept.add(run)
        self.bytes += kept.bytes - before
        self._copied = bool(run.property_flags & CARBON_COPY)
        self._count += run.count
        if self._turns and self._turns[-1] == at:
            self._counts[-1] += run.count
        else:
            self._turns.append(at)
            self._counts.append(run.count)

    def runs(self) -> list[PublishRun]:
        """What it holds; nothing can be added any more."""
        return [kept.run() for _, kept in self._runs.values()]

    def order(self) -> Iterator[tuple[int, int]]:
        """One after the other: the index of a run, and how many of its next messages came."""
        return zip(self._turns, self._counts, strict=True)
