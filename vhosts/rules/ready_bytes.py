"""How many bytes of bodies are ready in a partition, from sums over its batches.

The messages that a queue has at the start are counted once, on the disk too, some batches at a time.
"""

from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable

from routelog.log_backend import Lane, RecordBatch, Scheduler
from routelog.vhosts.messages.delivery import body_bytes
from routelog.vhosts.partitions.queue_partition import QueuePartition

BATCHES_MAX = 64  # counted in one step: some 60 us
LOOKS = 2  # at old entries, for each new one: so at most half of all entries are stale
_COMPACT_AT = 4_096  # sums nobody needs before they are cut


class ReadyBytes:
    """The ready bytes of one partition.

    Attributes:
        total: of the bodies of ready messages; 0 until they are counted.
        counted: the initial count is done.

    Args:
        on_counted: called when the initial count is done.
    """

    def __init__(
        self,
        partition: QueuePartition,
        scheduler: Scheduler,
        on_counted: Callable[[], None],
    ) -> None:
        self.total = 0
        self._partition = partition
        self._scheduler = scheduler
        self._on_counted = on_counted
        # Of each batch: behind its last offset, and the bytes of all batches up to there.
        self._ends = array("q", (partition.cursor.low_water,))
        self._sums = array("q", (0,))
        # The same at offsets within batches, as first computed: messages that leave must count as much as when
        # they came back, even if their batch has left memory.
        self._inside: OrderedDict[int, int] = OrderedDict()
        self.counted = self._ends[0] >= partition.log.ready_end
        if not self.counted:
            self._go_on()

    def _go_on(self) -> None:
        self._scheduler.call(Lane.UPKEEP, self._walk)

    def _walk(self) -> bool:
        # Counts some batches; returns whether there are more, else it is over, or waits for the disk.
        log = self._partition.log
        for _ in range(BATCHES_MAX):
            at = self._ends[-1]
            if at >= log.ready_end or log.closed:
                self._walked()
                return False
            batch = log.read(at)
            if batch is None:
                if log.needs_load(at):
                    log.load(at, self._go_on)
                else:
                    self._walked()  # messages behind damage are not ready
                return False
            self._add(batch.end_offset, self._bytes_from(batch, at))
        return True

    def _bytes_from(self, batch: RecordBatch, offset: int) -> int:
        index = max(0, offset - batch.base_offset)
        return body_bytes(batch.records, index, batch.records.count - index)

    def _walked(self) -> None:
        self.counted = True
        self.total = sum(self.between(*each) for each in self._partition.ready_ranges())
        self._on_counted()

    def _add(self, end: int, size: int) -> None:
        self._ends.append(end)
        self._sums.append(self._sums[-1] + size)

    def catch_up(self) -> None:
        """Count batches that were appended: they are in memory."""
        log = self._partition.log
        while self.counted and self._ends[-1] < log.ready_end:
            batch = log.read(self._ends[-1])
            if batch is None:
                return
            size = self._bytes_from(batch, self._ends[-1])
            self._add(batch.end_offset, size)
            self.total += size
        self._compact()

    def left(self, first: int, end: int) -> None:
        """Messages are not ready any more."""
        if self.counted:
            self.total -= self.between(first, end)

    def returned(self, first: int, end: int) -> None:
        """Messages are ready again."""
        if self.counted:
            self.total += self.between(first, end)

    def between(self, first: int, end: int) -> int:
        """Bytes of the bodies of [first, end), none of it below the low water of this moment."""
        return self._before(end) - self._before(first)

    def _before(self, offset: int) -> int:
        at = bisect_right(self._ends, offset) - 1
        if at < 0:
            return 0
        below = self._sums[at]
        if offset == self._ends[at] or at + 1 == len(self._ends):
            return below
        inside = self._inside.get(offset)
        if inside is None:
            self._forget_some()
            inside = self._inside[offset] = self._within(at, offset)
        return inside

    def _within(self, at: int, offset: int) -> int:
        batch = self._partition.log.read(offset)
        if batch is not None and batch.base_offset <= offset < batch.end_offset:
            return self._sums[at + 1] - self._bytes_from(batch, offset)
        # The batch is on the disk only: assume that all its messages have one size.
        width = self._ends[at + 1] - self._ends[at]
        size = self._sums[at + 1] - self._sums[at]
        return self._sums[at] + size * (offset - self._ends[at]) // width

    def _forget_some(self) -> None:
        # No ready range can begin or end between two settled messages any more.
        settled = self._partition.cursor.settled
        for _ in range(min(LOOKS, len(self._inside))):
            offset = next(iter(self._inside))
            if offset in settled and offset - 1 in settled:
                del self._inside[offset]
            else:
                self._inside.move_to_end(offset)

    def _compact(self) -> None:
        passed = bisect_right(self._ends, self._partition.cursor.low_water) - 1
        if passed >= _COMPACT_AT:
            del self._ends[:passed], self._sums[:passed]
