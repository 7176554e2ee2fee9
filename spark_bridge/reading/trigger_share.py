"""How much of each partition's backlog one micro-batch takes. Decides only; nothing is read here."""

from collections.abc import Mapping, Sequence
from math import ceil, floor

from routelog.spark_bridge.logs.log_store import LogPartition, LogStore, OffsetRange

# Of each partition, what a micro-batch may take: oldest stretch first, at least one.
Backlogs = Mapping[LogPartition, Sequence[OffsetRange]]


def ends_by_records(backlogs: Backlogs, records_max: int) -> dict[LogPartition, int]:
    """Where each partition's part ends, so that all have about so many offsets.

    Shares are in proportion to the backlogs. Small ones are rounded up, so that none starves: the
    sum may exceed the limit by one record a partition.

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
    """Where each partition's part ends, so that all bodies have at most so many bytes.

    Smaller backlogs come first, and what they leave of their shares goes to the larger ones. Each
    gets one record at least if that still fits. A record larger than the limit comes alone.
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
