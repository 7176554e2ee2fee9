"""Which task reads what: ranges of offsets, cut and packed. Decides only; nothing is read here."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from spark_bridge.errors import BadOption, RecordsLost
from spark_bridge.log_store import LogStore, OffsetRange
from spark_bridge.read_options import ReadOptions

Task = tuple[OffsetRange, ...]

# A task costs Spark some 20 ms before its first record; these bytes take about as long to read.
TASK_BYTES_PACKED = 8 * 1024 * 1024


def plan_read(store: LogStore, options: ReadOptions) -> list[Task]:
    """Tasks that together read each wanted offset once; none when there is nothing to read.

    Without `minPartitions` a task is a segment, or several small ones.

    Raises:
        BadOption: a queue, partition or vhost that is asked for is not there.
        RecordsLost: offsets asked for are not in the log, and that is an error.
    """
    ranges = _wanted_ranges(store, options)
    if options.records_max is not None:
        ranges = [piece for each in ranges for piece in _cut_to_size(each, options.records_max)]
    if options.partitions_min is None:
        return list(_packed(ranges, options.records_max))
    return [(each,) for each in _cut_to_count(ranges, options.partitions_min)]


def _wanted_ranges(store: LogStore, options: ReadOptions) -> list[OffsetRange]:
    partitions = store.partitions(options.vhost, options.selection.queues)
    if not partitions and options.vhost not in store.vhosts():
        names = ", ".join(f"'{vhost}'" for vhost in store.vhosts()) or "none"
        raise BadOption("vhost", f"no logs of vhost '{options.vhost}'; there are: {names}")
    selected = options.selection.select(partitions)
    options.starting.check_covers(selected)
    options.ending.check_covers(selected)
    extents = (store.extents(partition) for partition in selected)
    return [each for extent in extents for each in _within_limits(extent, options)]


def _within_limits(extents: list[OffsetRange], options: ReadOptions) -> Iterator[OffsetRange]:
    """The parts of one partition's extents that lie between the limits."""
    partition, earliest, latest = extents[0].partition, extents[0].start, extents[-1].end
    start = options.starting.offset(partition, earliest, latest)
    end = options.ending.offset(partition, earliest, latest)
    if options.fail_on_data_loss and start < min(earliest, end):
        raise RecordsLost(partition, start, min(earliest, end))
    if options.fail_on_data_loss and end > max(latest, start):
        raise RecordsLost(partition, max(latest, start), end)
    for extent in extents:
        if max(extent.start, start) < min(extent.end, end):
            yield _part(extent, max(extent.start, start), min(extent.end, end))


def _cut_to_size(whole: OffsetRange, offsets_max: int) -> Iterator[OffsetRange]:
    """Cut a range into equal pieces of at most so many offsets."""
    return _cut(whole, -(-(whole.end - whole.start) // offsets_max))


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


def _packed(ranges: Iterable[OffsetRange], records_max: int | None) -> Iterator[Task]:
    """Put neighbours into one task until it is worth its cost."""
    task: list[OffsetRange] = []
    size = records = 0
    for each in ranges:
        size += each.bytes_estimate
        records += each.end - each.start
        if task and (size > TASK_BYTES_PACKED or (records_max and records > records_max)):
            yield tuple(task)
            task, size, records = [], each.bytes_estimate, each.end - each.start
        task.append(each)
    if task:
        yield tuple(task)
