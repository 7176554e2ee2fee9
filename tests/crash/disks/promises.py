"""What a node promised about the records of its queues, and what a recovered node is held to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from crash.disks.topology_promise import TopologyPromise
from crash.disks.transaction_promise import PromiseBroken, TransactionPromise

from routelog.log_backend.partitions.partition_log import PartitionLog

NOT_KNOWN = 0  # number of a partition that is being declared


@dataclass
class QueuePromises:
    """One partition, by the offsets of its records.

    Attributes:
        keeps: consumers take nothing away: a stream, or a queue with `x-retention`.
        kept_bytes: of a stream with a limit: so much of its end must be there; None: all of it.
        bodies: what was appended and survives a restart.
        confirmed: appended, and the journal reached their position.
        settled: a consumer settled them.
        committed: settled, and a later append of the same node is durable.
    """

    partition: int
    keeps: bool = False
    kept_bytes: int | None = None
    bodies: dict[int, bytes] = field(default_factory=dict)
    confirmed: set[int] = field(default_factory=set)
    settled: set[int] = field(default_factory=set)
    committed: set[int] = field(default_factory=set)
    _waiting: dict[int, int] = field(default_factory=dict)  # offset -> journal position
    _committing: dict[int, int] = field(default_factory=dict)

    def copy(self) -> Self:
        """The promises of this moment; those that wait for the journal were not made."""
        return type(self)(
            self.partition,
            self.keeps,
            self.kept_bytes,
            self.bodies.copy(),
            self.confirmed.copy(),
            self.settled.copy(),
            self.committed.copy(),
        )

    def appended(self, first: int, bodies: list[bytes], position: int) -> None:
        """Records got their offsets; 0 is the position of those that nothing makes durable."""
        for offset, body in enumerate(bodies, first):
            self.bodies.pop(offset, None)
            if position:
                self.bodies[offset] = body
                self._waiting[offset] = position

    def settle(self, first: int, end: int) -> None:
        """A consumer is done with [first, end)."""
        self.settled.update(range(first, end))

    def taken_back(self, appended: range, settled: range) -> None:
        """A transaction was refused: what it did is as if it had never been."""
        for offset in appended:
            self.bodies.pop(offset, None)
            self._waiting.pop(offset, None)
        self.settled.difference_update(settled)
        for offset in settled:
            self._committing.pop(offset, None)

    def barrier(self, position: int) -> None:
        """An append came behind all that was settled so far."""
        for offset in self.settled - self.committed:
            self._committing.setdefault(offset, position)

    def durable(self, position: int) -> None:
        """The journal has reached a position."""
        for waiting, done in ((self._waiting, self.confirmed), (self._committing, self.committed)):
            reached = [offset for offset, needed in waiting.items() if needed <= position]
            for offset in reached:
                del waiting[offset]
            done.update(reached)

    def check(self, log: PartitionLog, found: dict[int, bytes], ready: int) -> None:
        """Hold a recovered partition to what was promised.

        Args:
            found: offset and body of all that its readers get.
            ready: how many messages it says it has.

        Raises:
            PromiseBroken: it breaks its word.
        """
        for offset, body in found.items():
            if self.bodies.get(offset) != body:
                wanted = self.bodies.get(offset, b"nothing")[:20]
                raise PromiseBroken(f"{log.directory}: {body[:20]!r} at {offset}, not {wanted!r}")
        lost = self._owed(log) - set(found)
        if lost:
            has = f"has {len(found)} of {log.first_offset} to {log.next_offset}"
            raise PromiseBroken(f"{log.directory}: lost {sorted(lost)[:10]}, {has}")
        back = self.committed & set(found)
        if back and not self.keeps:
            raise PromiseBroken(f"{log.directory}: settled and back: {sorted(back)[:10]}")
        highest = max(self.confirmed | self.committed, default=-1)
        if log.next_offset <= highest:
            raise PromiseBroken(f"{log.directory}: {highest} would be given twice")
        if not self.keeps and ready != len(found):
            raise PromiseBroken(f"{log.directory}: says {ready} ready, has {len(found)}")

    def _owed(self, log: PartitionLog) -> set[int]:
        if not self.keeps:
            return self.confirmed - self.settled
        if self.kept_bytes is None:
            return set(self.confirmed)
        owed: set[int] = set()
        size = 0
        for offset in sorted(self.bodies, reverse=True):
            size += len(self.bodies[offset])
            if size > self.kept_bytes:
                break
            owed.add(offset)
        return owed & self.confirmed

    def recovered(self, log: PartitionLog, found: dict[int, bytes]) -> None:
        """Go on with what a restart found: what it did not find is gone for ever.

        But for what another power cut may bring back: segments that retention removed, and what was settled
        when no later append was durable. A segment that was not synced may lack it, and that one may go.
        Offsets above all that was durable may go with it, and be given again.
        """
        gone = set(range(log.next_offset)) - set(found)
        durable = set(range(max(self.confirmed | self.committed, default=-1) + 1))
        if self.keeps:
            may_be_back = {offset for offset in self.bodies if offset < log.first_offset}
        else:
            may_be_back = gone & self.settled - self.committed
            self.settled = gone
            self.committed |= gone & durable - may_be_back
        self.bodies = {
            **{offset: self.bodies[offset] for offset in may_be_back & set(self.bodies)},
            **found,
        }
        self.confirmed &= set(found)
        self._waiting.clear()
        self._committing.clear()


class Promises:
    """All queues of a node: for each name, every generation that a crash may leave."""

    def __init__(self) -> None:
        self.queues: dict[str, list[QueuePromises | None]] = {}
        self.transactions: list[TransactionPromise] = []
        self.topology = TopologyPromise()

    def copy(self) -> Promises:
        """The promises of this moment."""
        copied = Promises()
        for name, generations in list(self.queues.items()):
            copied.queues[name] = [each and each.copy() for each in list(generations)]
        copied.topology = self.topology.copy()
        copied.transactions = [each.copy() for each in list(self.transactions)]
        return copied

    def all(self) -> list[QueuePromises]:
        """Those of all generations."""
        return [each for several in self.queues.values() for each in several if each is not None]

    def durable(self, position: int) -> None:
        """The journal has reached a position."""
        for promises in self.all():
            promises.durable(position)
        for transaction in self.transactions:
            transaction.durable(position)

    def generation(self, name: str, partition: int | None) -> QueuePromises | None:
        """The promises of the queue that is there, of which no other generation is left.

        Args:
            partition: its number; None when there is no queue of this name.

        Raises:
            PromiseBroken: it must not be there, or must be.
        """
        for number in (partition, NOT_KNOWN):
            for promises in self.queues[name]:
                if (None if promises is None else promises.partition) == number:
                    self.queues[name] = [promises]
                    return promises
        raise PromiseBroken(f"{name}: partition {partition}, of {self.queues[name]}")
