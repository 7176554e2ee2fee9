"""Plans which task reads which offsets. It reads no records."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace

from routelog.spark_bridge.columns.record_conditions import NO_CONDITIONS, RecordConditions
from routelog.spark_bridge.logs.errors import BadOption, RecordsLost
from routelog.spark_bridge.logs.readable_logs import LogPartition, OffsetRange, ReadableLogs
from routelog.spark_bridge.reading.read_options import ReadOptions

Task = tuple[OffsetRange, ...]

# A Python task has an overhead of some 50 ms of processor time; to read these bytes takes about as long.
TASK_BYTES_MIN = 32 * 1024 * 1024

# Spark tells a Python source nothing of its cluster, which has at least the processors of this host.
PROCESSORS = os.cpu_count() or 1


def plan_batch(
    store: ReadableLogs,
    options: ReadOptions,
    conditions: RecordConditions = NO_CONDITIONS,
    processors: int = PROCESSORS,
) -> list[Task]:
    """Return tasks that together read each wanted offset once; empty if there is nothing to read.

    Args:
        processors: see `plan_tasks`.

    Raises:
        BadOption: a queue, partition or vhost that is asked for does not exist.
        RecordsLost: offsets that are asked for are not in the log, and that is an error.
    """
    partitions = selected_partitions(store, options)
    options.starting.check_covers(partitions)
    options.ending.check_covers(partitions)
    ranges: list[OffsetRange] = []
    for partition in filter(conditions.may_hold, partitions):
        extents = store.extents(partition)
        held = whole(extents)
        start, end = options.starting.offset(store, held), options.ending.offset(store, held)
        start, end = conditions.narrowed(store, held, start, end)
        ranges += stretches_between(extents, start, end, lost_is_error=options.fail_on_data_loss)
    return plan_tasks(store, ranges, options, processors)


def selected_partitions(store: ReadableLogs, options: ReadOptions) -> list[LogPartition]:
    """Return the partitions that a query reads.

    Raises:
        BadOption: a queue, partition or vhost that is asked for does not exist.
    """
    partitions = store.partitions(options.vhost, options.selection.queues)
    if not partitions and options.vhost not in store.vhosts():
        names = ", ".join(f"'{vhost}'" for vhost in store.vhosts()) or "none"
        raise BadOption("vhost", f"no logs of vhost '{options.vhost}'; there are: {names}")
    return options.selection.select(partitions)


def whole(extents: list[OffsetRange]) -> OffsetRange:
    """Join the extents of a partition's log to one range."""
    size = sum(each.bytes_estimate for each in extents)
    return replace(extents[0], end=extents[-1].end, bytes_estimate=size)


def stretches_between(
    extents: list[OffsetRange], start: int, end: int, *, lost_is_error: bool
) -> list[OffsetRange]:
    """The parts of one partition's extents that lie between two offsets.

    Raises:
        RecordsLost: the log does not hold all of them, and that is an error.
    """
    if lost_is_error:
        for lost in lost_between(extents, start, end):
            raise lost
    return [
        _part(extent, max(extent.start, start), min(extent.end, end))
        for extent in extents
        if max(extent.start, start) < min(extent.end, end)
    ]


def lost_between(extents: list[OffsetRange], start: int, end: int) -> Iterator[RecordsLost]:
    """Yield an error for the offsets in [start, end) before a partition's extents, and one for those behind."""
    partition, earliest, latest = extents[0].partition, extents[0].start, extents[-1].end
    if start < min(earliest, end):
        yield RecordsLost(partition, start, min(earliest, end))
    if end > max(latest, start):
        yield RecordsLost(partition, max(latest, start), end)


def plan_tasks(
    store: ReadableLogs,
    ranges: list[OffsetRange],
    options: ReadOptions,
    processors: int = PROCESSORS,
) -> list[Task]:
    """Return tasks for some ranges; without `minPartitions`, adjacent ranges are packed into one task.

    Args:
        processors: number of processors among which the bytes are to be divided equally.

    Source:
        `spark.sql.files.maxPartitionBytes`: Spark packs small files in this way.
    """
    if options.records_max is not None:
        ranges = [piece for each in ranges for piece in _cut_to_size(each, options.records_max)]
    if options.partitions_min is None:
        ranges = [piece for each in ranges for piece in _cut_to_bytes(each, options.bytes_max)]
        size = _task_bytes(
            sum(each.bytes_estimate for each in ranges), options.bytes_max, processors
        )
        tasks = list(_packed(ranges, size, options.records_max))
    else:
        tasks = [(each,) for each in _cut_to_count(ranges, options.partitions_min)]
    return [tuple(map(store.located, task)) for task in tasks]


def _task_bytes(total: int, bytes_max: int, processors: int) -> int:
    """The bytes of one task at which all processors get about the same, with as few tasks as possible."""
    rounds = -(-total // (bytes_max * processors)) or 1
    share = total // (rounds * processors)
    share += share // 8  # so that ranges of about the same length give equal tasks
    return min(max(share, TASK_BYTES_MIN), bytes_max)


def _cut_to_size(whole: OffsetRange, offsets_max: int) -> Iterator[OffsetRange]:
    """Cut a range into equal pieces of at most `offsets_max` offsets."""
    return _cut(whole, -(-(whole.end - whole.start) // offsets_max))


def _cut_to_bytes(whole: OffsetRange, bytes_max: int) -> Iterator[OffsetRange]:
    """Cut a range into equal pieces of about `bytes_max` bytes at most, and at least one offset."""
    return _cut(whole, min(-(-whole.bytes_estimate // bytes_max), whole.end - whole.start) or 1)


def _cut_to_count(ranges: list[OffsetRange], count: int) -> Iterator[OffsetRange]:
    """Cut long ranges so that there are about `count` ranges, and no fewer if there are enough offsets."""
    total = sum(each.end - each.start for each in ranges)
    for each in ranges:
        length = each.end - each.start
        pieces = -(-length * count // total) if len(ranges) < count else 1
        yield from _cut(each, min(pieces, length))


def _cut(whole: OffsetRange, pieces: int) -> Iterator[OffsetRange]:
    length = whole.end - whole.start
    for index in range(pieces):
        start = whole.start + length * index // pieces
        end = whole.start + length * (index + 1) // pieces
        yield _part(whole, start, end)


def _part(whole: OffsetRange, start: int, end: int) -> OffsetRange:
    share = (end - start) / (whole.end - whole.start)
    return replace(whole, start=start, end=end, bytes_estimate=int(whole.bytes_estimate * share))


def _packed(
    ranges: Iterable[OffsetRange], bytes_max: int, records_max: int | None
) -> Iterator[Task]:
    """Pack adjacent ranges into tasks."""
    task: list[OffsetRange] = []
    size = records = 0
    for each in ranges:
        size += each.bytes_estimate
        records += each.end - each.start
        if task and (size > bytes_max or (records_max and records > records_max)):
            yield tuple(task)
            task, size, records = [], each.bytes_estimate, each.end - each.start
        task.append(each)
    if task:
        yield tuple(task)
