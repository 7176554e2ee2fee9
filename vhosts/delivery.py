"""What a queue hands out: a slice of a record batch."""

from typing import TYPE_CHECKING

from log_backend import Records

if TYPE_CHECKING:
    from vhosts.queue_partition import QueuePartition


class Delivery:
    """Neighbouring records of one batch, handed to one consumer.

    Attributes:
        partition: where they come from, and where they are settled or returned.
        records: content of the batch.
        index: of the first record in the batch.
        count: records handed out.
        offset: of the first record in the partition's log.
        redelivered: they were handed out before.
    """

    __slots__ = ("count", "index", "offset", "partition", "records", "redelivered")

    def __init__(
        self,
        partition: "QueuePartition",
        records: Records,
        index: int,
        count: int,
        offset: int,
        redelivered: bool,
    ) -> None:
        self.partition = partition
        self.records = records
        self.index = index
        self.count = count
        self.offset = offset
        self.redelivered = redelivered
