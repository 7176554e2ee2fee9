"""How many bytes of bodies a queue has, and how many messages are persistent or in memory.

They are counted when an operator asks: the data plane counts nothing for it.

Batches in memory are counted as they are. What lies in segments alone counts as the mean of its segment, with
keys and properties; in remote storage as it is stored, compressed or not.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields

from routelog.log_backend import PartitionLog
from routelog.vhosts import Queue, QueuePartition

# Looked at, of all partitions of a queue, but one of each at least; messages behind them count as their mean.
STRETCHES_MAX = 2_048  # of one queue alone: some 5 ms
LISTED_STRETCHES_MAX = 16


@dataclass(slots=True)
class QueueBytes:
    """Bytes of bodies, and numbers of messages.

    Attributes:
        total: bytes of all messages that are not settled; of a stream, of all that it has.
        in_memory, persistent: bytes of these.
        messages_in_memory, messages_persistent: how many messages that are.
    """

    total: int = 0
    in_memory: int = 0
    persistent: int = 0
    messages_in_memory: int = 0
    messages_persistent: int = 0

    def extend(self, counted: int, messages: int) -> None:
        """What was counted is of so many messages alone, and all are like their mean."""
        for name in _COUNTS:
            setattr(self, name, getattr(self, name) * messages // max(counted, 1))

    def add(self, other: "QueueBytes") -> None:
        """Add those of other messages."""
        for name in _COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def share(self, messages: int, of: int) -> int:
        """The bytes of some messages, if all are as large as their mean."""
        return self.total * messages // of if of else 0


_COUNTS = tuple(each.name for each in fields(QueueBytes))


@dataclass(frozen=True, slots=True)
class _Stretch:
    # Neighbouring messages of one batch, or of one segment.
    first: int
    end: int
    bytes: int
    in_memory: bool
    persistent: bool


def queue_bytes(queue: Queue, stretches_max: int) -> QueueBytes:
    """Count the bytes of a queue, by its first stretches."""
    found = QueueBytes()
    of_each = max(1, stretches_max // len(queue.partitions))
    for partition in queue.partitions:
        found.add(_partition_bytes(partition, of_each))
    return found


def _partition_bytes(partition: QueuePartition, stretches_max: int) -> QueueBytes:
    settled, counted, found = partition.cursor.settled, 0, QueueBytes()
    is_stream = partition.log.is_stream
    begin = partition.log.first_offset if is_stream else settled.low_water
    for looked_at, each in enumerate(_stretches(partition.log, begin)):
        if looked_at == stretches_max:
            messages = partition.ready + partition.in_flight
            if is_stream:
                messages = partition.log.visible_end - partition.log.first_offset
            found.extend(counted, max(counted, messages))
            break
        unsettled = each.end - each.first
        if not is_stream:
            unsettled -= settled.count_from(each.first, each.end)
        size = each.bytes * unsettled // (each.end - each.first)
        counted += unsettled
        in_memory, persistent = each.in_memory, each.persistent
        bytes_ = size, size * in_memory, size * persistent
        found.add(QueueBytes(*bytes_, unsettled * in_memory, unsettled * persistent))
    return found


def _stretches(log: PartitionLog, begin: int) -> Iterator[_Stretch]:
    at = max(begin, log.first_offset)
    remote = log.remote
    while at < log.ready_end:
        if remote is not None and log.is_remote(at):
            place = remote.segment_of(at)
            assert place is not None
            first, end = max(at, place.first_offset), min(place.next_base, log.local_first)
            width = place.next_base - place.base_offset
            yield _Stretch(first, end, place.bytes * (end - first) // width, False, True)
            at = end
            continue
        batch, segment = log.read(at), log.segment_of(at)
        if batch is not None:
            first, end = max(at, batch.base_offset), min(batch.end_offset, log.ready_end)
            offsets, index = batch.records.offset_columns(), first - batch.base_offset
            size = offsets[index + end - first] - offsets[index]
            yield _Stretch(first, end, size, True, batch.records.persistent)
        elif segment is not None and log.needs_load(at):
            first, end = max(at, segment.base_offset), min(segment.written_end, log.ready_end)
            width = segment.written_end - segment.base_offset
            size = segment.written_size * (end - first) // width
            yield _Stretch(first, end, size, False, not segment.transient)
        else:
            return  # damage, or a transaction under way
        at = end
