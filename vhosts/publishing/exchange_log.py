"""What an exchange remembers, on the disk: a log of its own, beside those of the queues.

A partition like any other: it shares the journal with the messages, so what is remembered of a message can
be in the block that holds the message itself. What the exchange forgets is settled.
"""

from collections.abc import AsyncIterator

from routelog.log_backend import (
    EXCHANGE_MARK,
    Change,
    Durability,
    LogStore,
    PartitionLog,
    Reason,
    Records,
)
from routelog.vhosts.messages.unsettled_records import Kept, unsettled_records


class ExchangeLog:
    """The log of one exchange.

    Attributes:
        partition: of the log store.
    """

    def __init__(self, logs: LogStore, number: int, vhost: str, exchange: str) -> None:
        self._logs = logs
        # What is remembered of a message is as safe as the message: a sync is that one's to ask for.
        self.partition: PartitionLog = logs.open_partition(
            number, vhost, EXCHANGE_MARK + exchange, 0, durable=True, durability=Durability.OS
        )

    def append(self, records: Records) -> int:
        """Add records; returns the offset of the first one."""
        offset = self.partition.next_offset
        self.partition.append(records, True)
        return offset

    def settle(self, first: int, end: int) -> None:
        """Forget the records [first, end)."""
        self.partition.open_cursor().settle(first, end, Reason.EXPIRED)

    def release(self) -> None:
        """Let go of what is settled."""
        self.partition.release()

    def kept(self) -> AsyncIterator[Kept]:
        """The records that are not settled; for once, after recovery."""
        return unsettled_records(self.partition, self.partition.open_cursor())

    def close(self) -> list[Change]:
        """The exchange is being deleted; see `LogStore.close_partitions`."""
        return self._logs.close_partitions(self.partition)

    def remove_files(self) -> None:
        """The deletion is durable."""
        self._logs.remove_files(self.partition)
