"""What an exchange remembers, on the disk: a log of its own, beside those of the queues.

A partition like any other: it shares the journal with the messages, so what is remembered of a message can
be in the block that holds the message itself. What the exchange forgets is settled.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from log_backend import (
    EXCHANGE_MARK,
    Change,
    Durability,
    LogStore,
    PartitionLog,
    Reason,
    RecordBatch,
    Records,
)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Kept:
    """A batch that was found again, and the index of one record of it that is not settled."""

    batch: RecordBatch
    index: int


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

    async def kept(self) -> AsyncIterator[Kept]:
        """The records that are not settled, in order; for once, after recovery.

        Damage ends them: what lies behind it is not remembered.
        """
        partition = self.partition
        settled = partition.open_cursor().settled
        offset = settled.unsettled_from(partition.first_offset)
        while offset < partition.next_offset:
            batch = await self._batch(offset)
            if batch is None:
                log.error("%s: cannot be read from offset %d on", partition.directory, offset)
                return
            offset = max(offset, batch.base_offset)
            while (offset := settled.unsettled_from(offset)) < batch.end_offset:
                yield Kept(batch, offset - batch.base_offset)
                offset += 1

    async def _batch(self, offset: int) -> RecordBatch | None:
        if (batch := self.partition.read(offset)) is None and self.partition.needs_load(offset):
            loaded = asyncio.Event()
            self.partition.load(offset, loaded.set)
            await loaded.wait()
            batch = self.partition.read(offset)
        return batch

    def close(self) -> list[Change]:
        """The exchange is being deleted; see `LogStore.close_partition`."""
        return self._logs.close_partition(self.partition)

    def remove_files(self) -> None:
        """The deletion is durable."""
        self._logs.remove_files(self.partition)


OpenLog = Callable[[int], ExchangeLog]
