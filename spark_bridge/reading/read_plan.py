"""Which task reads what: ranges of offsets, cut and packed. Decides only; nothing is read here."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace

from routelog.spark_bridge.columns.record_conditions import NO_CONDITIONS, RecordConditions
from routelog.spark_bridge.logs.errors import BadOption, RecordsLost
from routelog.spark_bridge.logs.log_store import LogPartition, LogStore, OffsetRange
from routelog.spark_bridge.reading.read_options import ReadOptions

Task = tuple[OffsetRange, ...]

# A Python task costs Spark some 50 ms of processors beside its records; these bytes take about as long.
TASK_BYTES_MIN = 32 * 1024 * 1024

# Spark tells a Python source nothing of its cluster: it has at least the processors of the host that plans.
PROCESSORS = os.cpu_count() or 1


def plan_batch(
    store: LogStore,
    options: ReadOptions,
    conditions: RecordConditions = NO_CONDITIONS,
    processors: int = PROCESSORS,
) -> list[Task]:
    """Tasks that together read each wanted offset once; none when there is nothing to read.

    Args:
        processors: see `plan_tasks`.

    Raises:
        BadOption: a queue, partition or vhost that is asked for is not there.
        RecordsLost: offsets asked for are not in the log, and that is an error.
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


def selected_partitions(store: LogStore, options: ReadOptions) -> list[LogPartition]:
    """The partitions that a query is about.

    Raises:
        BadOption: a queue, partition or vhost that is asked for is not there.
    """
    partitions = store.partitions(options.vhost, options.selection.queues)
    if not partitions and options.vhost not in store.vhosts():
        names = ", ".join(f"'{vhost}'" for vhost in store.vhosts()) or "none"
        raise BadOption("vhost", f"no logs of vhost '{options.vhost}'; there are: {names}")
    return options.selection.select(partitions)


def whole(extents: list[OffsetRange]) -> OffsetRange:
    """All that one partition's log holds."""
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
    """What lies between two offsets, and before or behind all of one partition's extents."""
    partition, earliest, latest = extents[0].partition, extents[0].start, extents[-1].end
    if start < min(earliest, end):
        yield RecordsLost(partition, start, min(earliest, end))
    if end > max(latest, start):
        yield RecordsLost(partition, max(latest, start), end)


def plan_tasks(
    store: LogStore, ranges: list[OffsetRange], options: ReadOptions, processors: int = PROCESSORS
) -> list[Task]:
    """Tasks for some ranges; without `minPartitions` a task has neighbours up to a size.

    Args:
        processors: that should all have about as much to read.

    Source:
        `spark.sql.files.maxPartitionBytes`, as Spark packs small files.
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
    """What one task has at most, so that all processors have about as much, in as few rounds as may be."""
    rounds = -(-total // (bytes_max * processors)) or 1
    share = total // (rounds * processors)
    share += share // 8  # so that ranges which are about as long as each other come out even
    return min(max(share, TASK_BYTES_MIN), bytes_max)


def _cut_to_size(whole: OffsetRange, offsets_max: int) -> Iterator[OffsetRange]:
    """Cut a range into equal pieces of at most so many offsets."""
    return _cut(whole, -(-(whole.end - whole.start) // offsets_max))


def _cut_to_bytes(whole: OffsetRange, bytes_max: int) -> Iterator[OffsetRange]:
    """Cut a range into equal pieces of about so many bytes at most, one offset at least."""
    return _cut(whole, min(-(-whole.bytes_estimate // bytes_max), whole.end - whole.start) or 1)


def _cut_to_count(ranges: list[OffsetRange], count: int) -> Iterator[OffsetRange]:
    """Cut the long ranges so that there are about `count`, and never fewer if offsets allow."""
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
    """Put neighbours into one task, as far as they fit."""
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
