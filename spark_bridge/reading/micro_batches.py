"""Decides the offsets at which the micro-batches of a stream begin and end."""

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from math import ceil, floor

from routelog.log_backend import Clock
from routelog.spark_bridge.logs.errors import DeclaredAgain, RecordsLost
from routelog.spark_bridge.logs.readable_logs import LogPartition, OffsetRange, ReadableLogs
from routelog.spark_bridge.reading.read_options import ReadOptions
from routelog.spark_bridge.reading.read_plan import (
    Task,
    lost_between,
    plan_tasks,
    selected_partitions,
    stretches_between,
    whole,
)
from routelog.spark_bridge.reading.stored_offsets import (
    NumberedOffsets,
    Offsets,
    have_one_number,
    numbers_of,
)

log = logging.getLogger(__name__)

# The unread ranges of each partition, oldest first, at least one.
Backlogs = Mapping[LogPartition, Sequence[OffsetRange]]

Logs = dict[LogPartition, list[OffsetRange]]  # the extents of each


def ends_by_records(backlogs: Backlogs, records_max: int) -> dict[LogPartition, int]:
    """Return where each partition's share ends, so that together they have about `records_max` offsets.

    Shares are proportional to the backlogs. A share below one record is rounded up, so that no partition
    starves: the sum may exceed the limit by one record for each partition.

    Source:
        `maxOffsetsPerTrigger` of Spark's Kafka source.
    """
    lengths = {each: parts[-1].end - parts[0].start for each, parts in backlogs.items()}
    total = sum(lengths.values())
    ends = {}
    for partition, length in lengths.items():
        share = records_max * length / total
        taken = ceil(share) if share < 1 else floor(share)
        ends[partition] = backlogs[partition][0].start + min(taken, length)
    return ends


def ends_by_bytes(
    store: ReadableLogs,
    backlogs: Backlogs,
    bytes_max: int,
    waiting: Collection[LogPartition] = (),
) -> dict[LogPartition, int]:
    """Return where each partition's share ends, so that all bodies have at most `bytes_max` bytes.

    Smaller backlogs come first, and larger ones get what these leave of their shares. Each partition gets at
    least one record if that still fits. A record larger than the limit comes alone.

    Args:
        waiting: partitions that got none the last time; they come first, in their order. Else a large record
            would wait for as long as others have smaller ones.

    Returns:
        The partitions in the order in which they were served.
    """
    sizes = {each: sum(part.bytes_estimate for part in backlogs[each]) for each in backlogs}
    left, left_size = bytes_max, sum(sizes.values())
    ends = {}
    waited = (each for each in waiting if each in backlogs)
    smallest_first = sorted(backlogs, key=lambda each: (sizes[each], each))
    for partition in dict.fromkeys((*waited, *smallest_first)):
        share = left * sizes[partition] // left_size if left_size else left
        left_size -= sizes[partition]
        end, size = _cut(store, backlogs[partition], share)
        fits = size <= left or left == bytes_max
        ends[partition] = end if fits else backlogs[partition][0].start
        left = max(left - size, 0) if fits else left
    return ends


def _cut(store: ReadableLogs, stretches: Sequence[OffsetRange], bytes_max: int) -> tuple[int, int]:
    """End of the part, and the size of its bodies: one record at least."""
    end, size = stretches[0].start, 0
    for stretch in stretches:
        cut = store.cut(stretch, bytes_max - size)
        if size and size + cut.body_bytes > bytes_max:
            break
        end, size = cut.end, size + cut.body_bytes
        if end < stretch.end:
            break
    return end, size


class MicroBatches:
    """The decisions for one stream, in a process of the driver.

    Only Spark's checkpoint lasts: the state here may be lost at any moment.

    Attributes:
        store: reads the logs.

    Args:
        clock: for `maxTriggerDelay`.
    """

    def __init__(self, store: ReadableLogs, options: ReadOptions, clock: Clock) -> None:
        self.store = store
        self._options = options
        self._clock = clock
        self._target: Offsets | None = None
        self._seen_ends: Offsets = {}  # the last known end of each log
        # The extents that `end` has read: `reached` and `tasks` use them, too.
        self._looked: Logs = {}
        self._waiting: list[LogPartition] = []  # those that the last limit in bytes left out
        self._to_pin: Offsets | None = None
        self._waiting_since = clock.monotonic()

    def freeze(self) -> None:
        """Read nothing that is stored later than now, and do not wait for a minimum of records."""
        self._target = self.latest()

    def first(self) -> Offsets:
        """Return where a stream without a checkpoint begins.

        Spark stores the end of a micro-batch before it runs, but not the begin of the first one: it asks again
        after a crash. If the answer could be another then, the first micro-batch is made empty: Spark stores
        its end, and so this answer.

        Raises:
            BadOption: a queue or partition that is named does not exist.
        """
        options = self._options
        partitions = selected_partitions(self.store, options)
        options.starting.check_covers(partitions)
        options.ending.check_covers(partitions)
        if not options.starting_is_given:
            log.warning("no starting option is given: the stream begins with the earliest records")
        start = NumberedOffsets()
        for partition in partitions:
            held = whole(self.store.extents(partition))
            if self._target is not None:
                held = replace(held, end=self._target.get(partition, held.start))
            offset = options.starting.offset(self.store, held)
            if offset > 0 or held.end > 0:  # else it has no segments: see `_logs`
                start[partition] = offset
                start.know(held)
        # With a frozen target the latest offset does not change, so it need not be stored.
        self._to_pin = None if options.starting.is_lasting or self._target is not None else start
        return start

    def end(self, start: Offsets, *, limited: bool) -> Offsets:
        """Return the end of the micro-batch from `start` on; `start` itself if it is too early for one.

        New partitions have an end, but no start.

        Args:
            limited: apply the trigger's limits.

        Raises:
            RecordsLost: a log ends before `start`, or a log with unread records was deleted; and loss is an
                error.
        """
        pinned, self._to_pin = self._to_pin, None
        self._looked = {}
        if pinned == start:
            return start
        backlogs, ends = self._backlogs(start)
        if limited and backlogs:
            if self._is_too_early(backlogs):
                return start
            ends |= self._limited(backlogs)
        self._waiting_since = self._clock.monotonic()
        return NumberedOffsets(sorted(ends.items()), numbers_of(ends))

    def latest(self) -> Offsets:
        """The current ends of the logs."""
        return _ends(self._logs())

    def reached(self) -> Offsets:
        """The ends of the logs that `end` has read, until its micro-batch is planned."""
        return _ends(self._looked or self._logs())

    def tasks(self, start: Offsets, end: Offsets) -> list[Task]:
        """Return the plan of one micro-batch; the same records each time it is asked for.

        Raises:
            RecordsLost: some of the records are not in the log any more, and loss is an error.
        """
        strict = self._options.fail_on_data_loss
        self._to_pin = None  # the end of this micro-batch is in the checkpoint
        looked, self._looked = self._looked, {}
        numbers = numbers_of(end)
        ranges: list[OffsetRange] = []
        for partition, last in end.items():
            if not have_one_number(partition, start, end):
                continue  # this micro-batch ends where the queue that was declared again begins
            extents = looked.get(partition)
            if extents is None or extents[-1].end < last:
                extents = self.store.extents(partition)
            if not extents[0].is_of(numbers.get(partition)):
                self._lose(DeclaredAgain(partition, last))
                continue
            first = start.get(partition, extents[0].start)
            ranges += stretches_between(extents, first, last, lost_is_error=strict)
            # If it is an error, it was raised above
            for lost in lost_between(extents, first, last):
                log.warning("%s", lost)
        return plan_tasks(self.store, ranges, self._options)

    def _logs(self) -> Logs:
        """The extents of the selected partitions, without those that have no segments.

        Only the broker knows where such a log begins: the last segment of an idle queue is removed when it is
        past its retention, and its directory with the next start of the broker.
        """
        options = self._options
        there = self.store.partitions(options.vhost, options.selection.queues)
        selected = options.selection.select(there, missing_is_error=False)
        logs = {each: self.store.extents(each) for each in selected}
        return {each: extents for each, extents in logs.items() if extents[-1].end > 0}

    def _backlogs(self, start: Offsets) -> tuple[Logs, Offsets]:
        """The unread ranges, and the end of each log; logs without unread records have an end only."""
        numbers = numbers_of(start)
        ends = NumberedOffsets(start, numbers)
        backlogs = {}
        logs = self._looked = self._logs()
        self._check_gone(start, logs)
        for extents in logs.values():
            held = whole(extents)
            self._seen_ends[held.partition] = held.end
            ends.know(held)
            first = start.get(held.partition, held.start)
            if not held.is_of(numbers.get(held.partition)):
                self._lose(DeclaredAgain(held.partition, first))
                ends[held.partition] = held.start
                continue
            last = self._bounded(held, first)
            if parts := stretches_between(extents, first, last, lost_is_error=False):
                backlogs[held.partition] = [self.store.located(each) for each in parts]
            # If the end is before the start, what was read is lost: others get its offsets.
            ends[held.partition] = held.start if last < first else last
        return backlogs, ends

    def _check_gone(self, start: Offsets, logs: Collection[LogPartition]) -> None:
        for partition, offset in start.items():
            if partition not in logs and offset < self._seen_ends.get(partition, 0):
                self._lose(RecordsLost(partition, offset, self._seen_ends.pop(partition)))

    def _lose(self, lost: RecordsLost) -> None:
        if self._options.fail_on_data_loss:
            raise lost
        log.warning("%s", lost)

    def _bounded(self, held: OffsetRange, first: int) -> int:
        """Return where a log ends for this stream.

        Raises:
            RecordsLost: the log ends before the first offset to read, and loss is an error.
        """
        if held.end < first:
            if self.store.next_offset(held.partition) >= first:
                return first  # nothing is lost: what was consumed is not always stored behind another leader
            self._lose(RecordsLost(held.partition, held.end, first))
        last = held.end
        if self._target is not None:
            last = min(last, max(self._target.get(held.partition, first), first))
        if last > first:
            bound = self._options.ending.offset(self.store, held)
            last = max(min(last, bound), first)
        return last

    def _is_too_early(self, backlogs: Logs) -> bool:
        limits = self._options.trigger
        if limits.records_min is None or self._target is not None:
            return False
        available = sum(parts[-1].end - parts[0].start for parts in backlogs.values())
        waited = self._clock.monotonic() - self._waiting_since
        return available < limits.records_min and waited < limits.delay_max

    def _limited(self, backlogs: Logs) -> Offsets:
        limits = self._options.trigger
        ends: Offsets = {}
        if limits.records_max is not None:
            ends = ends_by_records(backlogs, limits.records_max)
            backlogs = {
                partition: stretches_between(
                    parts, parts[0].start, ends[partition], lost_is_error=False
                )
                for partition, parts in backlogs.items()
            }
            backlogs = {partition: parts for partition, parts in backlogs.items() if parts}
        if limits.bytes_max is not None:
            served = ends_by_bytes(self.store, backlogs, limits.bytes_max, self._waiting)
            self._waiting = [each for each, end in served.items() if end == backlogs[each][0].start]
            ends |= served
        return ends


def _ends(logs: Logs) -> Offsets:
    ends = NumberedOffsets({each: extents[-1].end for each, extents in logs.items()})
    for extents in logs.values():
        ends.know(extents[-1])
    return ends
