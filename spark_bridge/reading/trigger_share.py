"""Decides how much of each partition's backlog one micro-batch takes."""

from collections.abc import Mapping, Sequence
from math import ceil, floor

from routelog.spark_bridge.logs.log_store import LogPartition, LogStore, OffsetRange

# The unread ranges of each partition, oldest first, at least one.
Backlogs = Mapping[LogPartition, Sequence[OffsetRange]]


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


def ends_by_bytes(store: LogStore, backlogs: Backlogs, bytes_max: int) -> dict[LogPartition, int]:
    """Return where each partition's share ends, so that all bodies have at most `bytes_max` bytes.

    Smaller backlogs come first, and larger ones get what these leave of their shares. Each partition gets at
    least one record if that still fits. A record larger than the limit comes alone.
    """
    sizes = {each: sum(part.bytes_estimate for part in backlogs[each]) for each in backlogs}
    left, left_size = bytes_max, sum(sizes.values())
    ends = {}
    for partition in sorted(backlogs, key=lambda each: (sizes[each], each)):
        share = left * sizes[partition] // left_size if left_size else left
        left_size -= sizes[partition]
        end, size = _cut(store, backlogs[partition], share)
        fits = size <= left or left == bytes_max
        ends[partition] = end if fits else backlogs[partition][0].start
        left = max(left - size, 0) if fits else left
    return ends


def _cut(store: LogStore, stretches: Sequence[OffsetRange], bytes_max: int) -> tuple[int, int]:
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
