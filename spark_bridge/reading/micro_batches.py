"""What a stream reads next: the offsets between which its micro-batches lie."""

import logging
from collections.abc import Collection
from dataclasses import replace

from routelog.log_backend import Clock
from routelog.spark_bridge.logs.errors import RecordsLost
from routelog.spark_bridge.logs.log_store import LogPartition, LogStore, OffsetRange
from routelog.spark_bridge.reading.read_options import ReadOptions
from routelog.spark_bridge.reading.read_plan import (
    Task,
    lost_between,
    plan_tasks,
    selected_partitions,
    stretches_between,
    whole,
)
from routelog.spark_bridge.reading.trigger_share import ends_by_bytes, ends_by_records

log = logging.getLogger(__name__)

Offsets = dict[LogPartition, int]  # of each partition, the next one to read
Logs = dict[LogPartition, list[OffsetRange]]  # the extents of each


class MicroBatches:
    """Decides for one stream, in one process on the driver's side.

    Spark's checkpoint is the only memory: what is kept here may be lost at any moment.

    Attributes:
        store: where the logs are.

    Args:
        clock: for `maxTriggerDelay`.
    """

    def __init__(self, store: LogStore, options: ReadOptions, clock: Clock) -> None:
        self.store = store
        self._options = options
        self._clock = clock
        self._target: Offsets | None = None
        self._seen_ends: Offsets = {}  # how far each log reached
        # What `end` saw, until its micro-batch is planned: one look at the logs does for all three.
        self._looked: Logs = {}
        self._to_pin: Offsets | None = None
        self._waiting_since = clock.monotonic()

    def freeze(self) -> None:
        """Read nothing that comes later than now; all limits but those from above are off."""
        self._target = self.latest()

    def first(self) -> Offsets:
        """Where a stream without a checkpoint begins.

        Spark stores the end of a micro-batch before it runs, but not where the first one begins: it
        asks again after a crash. If the answer may differ then, the first batch is to be an empty
        one, whose end pins it.

        Raises:
            BadOption: something asked for by name is not there.
        """
        options = self._options
        partitions = selected_partitions(self.store, options)
        options.starting.check_covers(partitions)
        options.ending.check_covers(partitions)
        if not options.starting_is_given:
            log.warning("no starting option is given: the stream begins with the earliest records")
        start: Offsets = {}
        for partition in partitions:
            held = whole(self.store.extents(partition))
            if self._target is not None:
                held = replace(held, end=self._target.get(partition, held.start))
            offset = options.starting.offset(self.store, held)
            if offset > 0 or held.end > 0:  # else it has no segments: see `_logs`
                start[partition] = offset
        # With a frozen target, nothing comes behind the latest offset: it pins itself.
        self._to_pin = None if options.starting.is_lasting or self._target is not None else start
        return start

    def end(self, start: Offsets, *, limited: bool) -> Offsets:
        """Where the micro-batch from `start` on ends; at `start` when it is not time for one.

        Partitions that are new have an end here and no start.

        Args:
            limited: apply the trigger's limits.

        Raises:
            RecordsLost: a log ends before `start`, or is not there and was longer; and loss is
                an error.
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
        return dict(sorted(ends.items()))

    def latest(self) -> Offsets:
        """How far the logs reach."""
        return _ends(self._logs())

    def reached(self) -> Offsets:
        """How far the logs reached when `end` looked at them, until its micro-batch is planned."""
        return _ends(self._looked or self._logs())

    def tasks(self, start: Offsets, end: Offsets) -> list[Task]:
        """The plan of one micro-batch: again the same records when it is asked for again.

        Raises:
            RecordsLost: some of them are not in the log any more, and loss is an error.
        """
        strict = self._options.fail_on_data_loss
        self._to_pin = None  # the end of this micro-batch is in the checkpoint
        looked, self._looked = self._looked, {}
        ranges: list[OffsetRange] = []
        for partition, last in end.items():
            extents = looked.get(partition)
            if extents is None or extents[-1].end < last:
                extents = self.store.extents(partition)
            first = start.get(partition, extents[0].start)
            ranges += stretches_between(extents, first, last, lost_is_error=strict)
            for lost in lost_between(extents, first, last):  # which is no error, or it was raised
                log.warning("%s", lost)
        return plan_tasks(self.store, ranges, self._options)

    def _logs(self) -> Logs:
        """The extents of the selected partitions, those left out that have no segments.

        Of these, nobody but the broker knows where they begin: when the last segment of an idle queue
        is past its retention it goes, and the directory with the next start.
        """
        options = self._options
        there = self.store.partitions(options.vhost, options.selection.queues)
        selected = options.selection.select(there, missing_is_error=False)
        logs = {each: self.store.extents(each) for each in selected}
        return {each: extents for each, extents in logs.items() if extents[-1].end > 0}

    def _backlogs(self, start: Offsets) -> tuple[Logs, Offsets]:
        """What there is to read, and where it ends; logs with nothing to read have an end only."""
        ends = dict(start)
        backlogs = {}
        logs = self._looked = self._logs()
        self._check_gone(start, logs)
        for extents in logs.values():
            held = whole(extents)
            self._seen_ends[held.partition] = held.end
            first = start.get(held.partition, held.start)
            last = self._bounded(held, first)
            if parts := stretches_between(extents, first, last, lost_is_error=False):
                backlogs[held.partition] = [self.store.located(each) for each in parts]
            # An end before the start is of another log with that name: from its beginning.
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
        """Where a log ends for this stream.

        Raises:
            RecordsLost: before the offset that is to be read first, and loss is an error.
        """
        if held.end < first:
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
            ends |= ends_by_bytes(self.store, backlogs, limits.bytes_max)
        return ends


def _ends(logs: Logs) -> Offsets:
    return {partition: extents[-1].end for partition, extents in logs.items()}
