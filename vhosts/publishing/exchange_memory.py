"""The memory of an exchange, whatever it remembers, and its log on the disk, beside those of the queues.

The log is a partition like any other: it shares the journal with the messages, so what is remembered of a
message can be in the block that holds the message itself. What the exchange forgets is settled.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import NamedTuple, Protocol

from routelog.exchanges import Message
from routelog.log_backend import (
    EXCHANGE_MARK,
    Change,
    Durability,
    LogStore,
    PartitionLog,
    Reason,
    Receipt,
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


class Note(NamedTuple):
    """What is to be remembered of a message once it is stored.

    Attributes:
        key: what makes it the same as another message.
        expires: when it stops counting, microseconds since 1970; 0: never.
    """

    key: bytes
    expires: int = 0


class ExchangeMemory(Protocol):
    """The memory of one exchange.

    Attributes:
        is_filter: what it knows is not let through again.
        log: where it is kept over restarts; None: nowhere.
        needed: covered when all messages that it knows are as safe as their queues promise.
    """

    is_filter: bool
    log: ExchangeLog | None
    needed: Receipt

    def note(self, message: Message) -> Note | None:
        """What is to be remembered of a message that came by; None: nothing."""

    def knows(self, note: Note) -> bool:
        """Whether a message was here before."""

    def remember(
        self,
        notes: Sequence[tuple[int, Note]],
        records: Callable[[list[int]], Records],
        *,
        persistent: bool,
    ) -> Callable[[], None]:
        """Messages are being stored: what is kept over a restart is appended, in their block of the journal.

        Args:
            notes: of each, with its place among those of the publish.
            records: makes a batch of the messages at some places.
            persistent: they survive a restart, so what is remembered has to.

        Returns:
            To be called in this turn, when all is appended: they are remembered.
        """

    async def load(self) -> None:
        """Take what earlier runs left."""

    def close(self) -> None:
        """The exchange is gone: forget all."""
