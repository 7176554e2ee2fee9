"""The partition of a message: by its key, so that the order of messages with one key holds; or as it comes."""

from array import array
from collections.abc import Iterable, Mapping, Sequence

from routelog.log_backend import (
    Records,
    header_key,
    key_partition,
    split_by_routing_key,
    split_records,
)
from routelog.vhosts.arguments.argument_checks import HEADER, ROUND_ROBIN
from routelog.vhosts.messages.message_header import header_integer
from routelog.vhosts.partitions.queue_partition import QueuePartition

PARTITION_HEADER = b"x-partition"


class Partitioner:
    """Divides the messages of a queue among its partitions.

    Args:
        strategy: as `x-partition-strategy` names it; None: by key.
        key_header: the header whose value is the key; None: the routing key is the key.
    """

    __slots__ = ("_key_header", "_strategy")

    def __init__(self, strategy: object, key_header: bytes | None) -> None:
        self._strategy = strategy
        self._key_header = key_header

    def publish(
        self, partitions: Sequence[QueuePartition], records: Records, *, waited: bool
    ) -> int:
        """Append records, each to its partition.

        Returns:
            The highest of the journal positions that make them durable: see `PartitionLog.append`.

        Cost:
            By round robin, a look at the end of each partition. By key, with one routing key for all
            records, one checksum of it; with a column of keys, one pass in the kernel. By a header, one
            look into each message's properties.
        """
        position = 0
        for at, part in self._parts(partitions, records):
            position = max(position, partitions[at].log.append(part, waited=waited))
        return position

    def _parts(
        self, partitions: Sequence[QueuePartition], records: Records
    ) -> Iterable[tuple[int, Records]]:
        count = len(partitions)
        if self._strategy == ROUND_ROBIN:
            # The shortest log, not the next one: runs differ in length, and large ones may alternate with
            # small ones. Of logs of one length it is the next one.
            ends = [each.log.next_offset for each in partitions]
            return ((ends.index(min(ends)), records),)
        if self._strategy == HEADER or self._key_header is not None:
            places = array("i", [self._place(records, at, count) for at in range(records.count)])
            return split_records(records, places, count)
        if records.has_key_column:
            return split_by_routing_key(records, count)
        return ((key_partition(records.routing_key(0), count), records),)

    def _place(self, records: Records, index: int, count: int) -> int:
        properties, key = records.properties(index), None
        if self._strategy == HEADER:
            wanted = header_integer(properties, PARTITION_HEADER)
            if wanted is not None and 0 <= wanted < count:
                return wanted
        if self._key_header is not None:
            key = header_key(properties, self._key_header)
        return key_partition(records.routing_key(index) if key is None else key, count)


def partitioner(arguments: Mapping[str, object]) -> Partitioner | None:
    """The partitioner of a queue with these arguments; None: it has one partition."""
    if partition_count(arguments) == 1:
        return None
    header = arguments.get("x-partition-key")
    key_header = header.encode() if isinstance(header, str) else None
    return Partitioner(arguments.get("x-partition-strategy"), key_header)


def partition_count(arguments: Mapping[str, object]) -> int:
    """The number of partitions in the arguments of a queue."""
    count = arguments.get("x-partitions", 1)
    return count if isinstance(count, int) else 1
