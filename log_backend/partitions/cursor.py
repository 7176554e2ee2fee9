# cython: annotation_typing=False, wraparound=True
# mypy: allow-untyped-decorators, no-warn-return-any, disable-error-code="index,name-defined"
"""A cursor: which records of a partition one reader has settled, and which changes the journal lacks."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from types import MappingProxyType

import cython

from routelog.log_backend.journal.journal_block import (
    HandedOut,
    Reason,
    Redelivered,
    Settlement,
    StateChange,
)
from routelog.log_backend.metadata.metadata import Change
from routelog.log_backend.partitions.settled_entries import SettledPart, settlements_of
from routelog.log_backend.settlement.cursor_snapshot import Marks, SnapshotWriter, read_snapshot
from routelog.log_backend.settlement.delivery_counts import CountedRange, DeliveryCounts
from routelog.log_backend.settlement.settled import SettledSet

# Limits of what waits for the journal, which may stand still for hours. Redelivered ranges; and ranges settled
# out of order, 0.2 MB of them: more are packed, in 1 ms, to at most a bit an offset, as the settled offsets
# are. No consumer sends so many scattered acks between two commits (10 ms).
REDELIVERED_MAX = 4_096
UNJOURNALED_MAX = 2_048

_ACKED = Reason.ACKED  # a look-up in the enum takes 0.07 us

NO_CURSORS: Mapping[int, int] = MappingProxyType({})


@cython.final
@cython.cclass
class Cursor:
    """The progress of one reader of a partition.

    Attributes:
        number: of the cursor within its partition; 0 is the queue's own.
        settled: the offsets it has settled.
        handed_out: every offset below was delivered, or is settled; it may be less than `low_water`.

    Args:
        on_changed: called once when there are changes for the journal, and again after `take_changes`; None:
            the cursor is not journaled.
    """

    __slots__ = (
        "_acked",
        "_announced",
        "_committed",
        "_delivery_counts",
        "_handed_out_journaled",
        "_on_changed",
        "_packed",
        "_redelivered",
        "_redelivered_max",
        "_replayed",
        "_settled_otherwise",
        "handed_out",
        "number",
        "settled",
    )

    def __init__(self, number: int, on_changed: Callable[[], None] | None) -> None:
        self.number = number
        self.settled = SettledSet()
        self.handed_out = 0
        self._on_changed = on_changed
        self._announced = False
        self._handed_out_journaled = 0
        self._redelivered_max = REDELIVERED_MAX
        # None instead of an empty list: there are very many cursors, most have none of these, and an empty list
        # takes 56 bytes and time of the garbage collector.
        self._delivery_counts: DeliveryCounts | None = None
        self._committed: tuple[Sequence[SettledPart], ...] = ()
        self._acked: list[tuple[int, int]] | None = None
        self._settled_otherwise: dict[Reason, list[tuple[int, int]]] | None = None
        # Of both, when there were too many ranges
        self._packed: dict[Reason, SettledSet] | None = None
        self._redelivered: list[CountedRange] | None = None
        self._replayed: list[StateChange] | None = None

    @property
    def low_water(self) -> int:
        """Every offset below is settled."""
        return self.settled.low_water

    @property
    def delivery_counts(self) -> DeliveryCounts:
        """How often unsettled messages were redelivered."""
        if self._delivery_counts is None:
            self._delivery_counts = DeliveryCounts(self.settled)
        return self._delivery_counts

    @cython.ccall
    @cython.returns(cython.longlong)
    @cython.exceptval(-1, check=True)
    @cython.locals(first=cython.longlong, end=cython.longlong, added=cython.longlong, ranges=list)
    def settle(self, first: int, end: int, reason: Reason = Reason.ACKED) -> int:
        """Settle [first, end); returns how many were not settled before."""
        added = self.settled.settle(first, end)
        if not added:
            return 0
        counts = self._delivery_counts
        if counts is not None and counts.chunks:
            counts.settled(first, end)
        if self._on_changed is not None:
            ranges = self._acked
            if ranges is None or reason is not _ACKED:
                ranges = self._unjournaled(reason)
            if ranges and ranges[-1][1] == first:
                ranges[-1] = (ranges[-1][0], end)
            else:
                ranges.append((first, end))
                if len(ranges) > UNJOURNALED_MAX:
                    self._pack(ranges, reason)
            if not self._announced:
                self._announce(self._on_changed)
        return added

    def _unjournaled(self, reason: Reason) -> list[tuple[int, int]]:
        # The ranges settled for this reason since `take_changes`.
        if reason is Reason.ACKED:
            if self._acked is None:
                self._acked = []
            return self._acked
        if self._settled_otherwise is None:
            self._settled_otherwise = {}
        return self._settled_otherwise.setdefault(reason, [])

    def _pack(self, ranges: list[tuple[int, int]], reason: Reason) -> None:
        if self._packed is None:
            self._packed = {}
        packed = self._packed.setdefault(reason, SettledSet())
        for first, end in ranges:
            packed.settle(first, end)
        ranges.clear()

    @cython.ccall
    @cython.locals(end=cython.longlong)
    def hand_out(self, end: int) -> None:
        """Note that every offset below `end` was delivered, or is settled."""
        if end > self.handed_out:
            self.handed_out = end
            if self._on_changed is not None and not self._announced:
                self._announce(self._on_changed)

    def redeliver(self, first: int, end: int) -> None:
        """Count one more delivery of the unsettled messages [first, end), which were delivered before."""
        counted = self.delivery_counts.count(first, end)
        if self._on_changed is not None:
            if self._redelivered is None:
                self._redelivered = []
            self._redelivered += counted
            if len(self._redelivered) > self._redelivered_max:
                # Counts only rise: the current ones replace all that were gathered.
                self._redelivered = list(chain.from_iterable(self.delivery_counts.chunks.values()))
                self._redelivered_max = max(REDELIVERED_MAX, 2 * len(self._redelivered))
            if not self._announced:
                self._announce(self._on_changed)

    def take_changes(self) -> list[StateChange]:
        """Return the changes for the journal since the last call."""
        self._announced = False
        changes, self._replayed = self._replayed or [], None
        if self._packed is not None:
            for reason, packed in self._packed.items():
                changes += settlements_of(packed, self.number, reason)
            self._packed = None
        if self._acked:
            changes.append(Settlement(self.number, self._acked))
        self._acked = None
        for reason, ranges in (self._settled_otherwise or {}).items():
            if ranges:
                changes.append(Settlement(self.number, ranges, reason))
        self._settled_otherwise = None
        if self.handed_out > max(self._handed_out_journaled, self.low_water):
            changes.append(HandedOut(self.number, self.handed_out))
            self._handed_out_journaled = self.handed_out
        if self._redelivered is not None:
            changes.append(Redelivered(self.number, self._redelivered))
            self._redelivered = None
        return changes

    def replay(self, change: StateChange) -> int:
        """Apply a change read from the journal; returns the end of the offsets that it contains."""
        if isinstance(change, HandedOut):
            self.hand_out(change.end)
            return change.end
        if isinstance(change, Settlement):
            return self._replay_settlement(change)
        for first, end, count in change.counts:
            self.delivery_counts.raise_to(first, end, count)
        self._replay_again(change)
        return max((end for _, end, _ in change.counts), default=0)

    def _replay_settlement(self, change: Settlement) -> int:
        if change.bitmap is None:
            for first, end in change.ranges:
                self.settle(first, end, change.reason)
            return max((end for _, end in change.ranges), default=0)
        end = change.first + int.from_bytes(change.bitmap, "little").bit_length()
        if self.settled.settle_bits(change.first, change.bitmap):
            if self._delivery_counts is not None:
                self._delivery_counts.settled(change.first, end)
            self._replay_again(change)
        return end

    def _replay_again(self, change: StateChange) -> None:
        # The journal needs this change again, because the file that held it will be recycled.
        if self._replayed is None:
            self._replayed = []
        self._replayed.append(change)
        if self._on_changed is not None and not self._announced:
            self._announce(self._on_changed)

    def will_settle(self, settled: Sequence[SettledPart]) -> None:
        """Note settlements that the journal has, but memory has not yet: a snapshot must include them."""
        self._committed = (*self._committed, settled)
        if self._on_changed is not None and not self._announced:
            self._announce(self._on_changed)

    def has_settled(self, settled: Sequence[SettledPart]) -> None:
        """Forget settlements of `will_settle`, given the same list: they were applied."""
        if self._committed:
            self._committed = tuple(each for each in self._committed if each is not settled)

    def snapshot(self, partition: int, next_offset: int, synced_offset: int) -> list[Change]:
        """The metadata changes that bring the stored snapshot up to date."""
        committed, self._committed = self._committed, ()
        for part in chain.from_iterable(committed):
            self._replay_settlement(part.settlement)
        writer = SnapshotWriter(partition, self.number)
        marks = Marks(self.low_water, next_offset, synced_offset, self.handed_out)
        changes = [writer.marks(marks)]
        settled, counts = self.settled, self._delivery_counts
        settled.shrink()
        changes += [writer.settled(n, settled.chunks.get(n)) for n in settled.dirty_chunks]
        settled.dirty_chunks.clear()
        if counts is not None:
            changes += [writer.counts(n, counts.chunks.get(n)) for n in counts.dirty_chunks]
            counts.dirty_chunks.clear()
        return changes

    def restore(self, entries: Iterable[tuple[bytes, bytes]]) -> Marks:
        """Load a snapshot from its keys and values; returns its marks.

        Raises:
            SnapshotDamaged: one of them fails a check; the cursor is not changed.
        """
        snapshot = read_snapshot(entries)
        self.settled.low_water = snapshot.marks.low_water
        self.handed_out = self._handed_out_journaled = snapshot.marks.handed_out
        for number, chunk in snapshot.settled.items():
            self.settled.restore_chunk(number, chunk)
        for number, ranges in snapshot.counts.items():
            self.delivery_counts.restore_chunk(number, ranges)
        return snapshot.marks

    def _announce(self, on_changed: Callable[[], None]) -> None:
        self._announced = True
        on_changed()
