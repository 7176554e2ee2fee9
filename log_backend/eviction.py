"""Making room in memory: what segments hold leaves it, of the largest tails first."""

from collections.abc import Iterable

from log_backend.partition_log import PartitionLog


def evict(partitions: Iterable[PartitionLog], excess: int) -> int:
    """Let go of so many bytes of batches, or of what there is; returns how many that were."""
    freed = 0
    for partition in sorted(partitions, key=PartitionLog.tail_bytes, reverse=True):
        if freed >= excess:
            break
        freed += partition.evict(excess - freed)
    return freed
