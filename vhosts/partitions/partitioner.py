"""The partition of a message: chosen by its key, so that the order of messages with one key holds."""

from array import array
from collections.abc import Iterable, Mapping, Sequence

from routelog.log_backend import Records, key_partition, split_by_routing_key, split_records
from routelog.vhosts.messages.message_header import header_key
from routelog.vhosts.partitions.queue_partition import QueuePartition


class Partitioner:
    """Divides the messages of a queue among its partitions.

    Args:
        header: the header whose value is the key; None: the routing key is the key.
    """

    __slots__ = ("_header",)

    def __init__(self, header: bytes | None) -> None:
        self._header = header

    def publish(
        self, partitions: Sequence[QueuePartition], records: Records, *, waited: bool
    ) -> int:
        """Append records, each to the partition of its key.

        Returns:
            The highest of the journal positions that make them durable: see `PartitionLog.append`.

        Cost:
            With one routing key for all records, one checksum of it. With a column of keys, one pass
            in the kernel; by a header, one look into each message's properties.
        """
        position = 0
        for at, part in self._parts(records, len(partitions)):
            position = max(position, partitions[at].log.append(part, waited=waited))
        return position

    def _parts(self, records: Records, count: int) -> Iterable[tuple[int, Records]]:
        if self._header is not None:
            return split_records(records, _places(records, self._header, count), count)
        if records.has_key_column:
            return split_by_routing_key(records, count)
        return ((key_partition(records.routing_key(0), count), records),)


def partitioner(arguments: Mapping[str, object]) -> Partitioner | None:
    """The partitioner of a queue with these arguments; None: it has one partition."""
    if partition_count(arguments) == 1:
        return None
    header = arguments.get("x-partition-key")
    return Partitioner(header.encode() if isinstance(header, str) else None)


def partition_count(arguments: Mapping[str, object]) -> int:
    """The number of partitions in the arguments of a queue."""
    count = arguments.get("x-partitions", 1)
    return count if isinstance(count, int) else 1


def _places(records: Records, header: bytes, count: int) -> "array[int]":
    places = array("i")
    for index in range(records.count):
        key = header_key(records.properties(index), header)
        places.append(key_partition(records.routing_key(index) if key is None else key, count))
    return places
