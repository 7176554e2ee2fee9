"""What the exchanges of a vhost remember: made, kept and deleted with them."""

from collections.abc import Callable
from functools import partial

from routelog.exchanges import (
    DEDUPLICATION,
    RECENT_HISTORY,
    Exchange,
    deduplication_options,
    history_length,
)
from routelog.log_backend import Change, LogStore
from routelog.vhosts.publishing.exchange_memory import ExchangeLog, ExchangeMemory
from routelog.vhosts.publishing.exchange_memory_limit import ExchangeMemoryLimit
from routelog.vhosts.publishing.recent_history import RecentHistory
from routelog.vhosts.publishing.seen_keys import SeenKeys


class ExchangeMemories:
    """The memories by the names of their exchanges.

    Args:
        limit: of all vhosts.
    """

    def __init__(self, vhost: str, logs: LogStore, limit: ExchangeMemoryLimit) -> None:
        self._vhost = vhost
        self._limit = limit
        self._logs = logs
        self.by_name: dict[str, ExchangeMemory] = {}

    async def load(self) -> None:
        """Fill the memories; the log store has recovered."""
        for memory in self.by_name.values():
            await memory.load()

    def deleted(self, exchange: Exchange) -> tuple[list[Change], list[Callable[[], None]]]:
        """An exchange has gone.

        Returns:
            Metadata changes to apply together with its deletion, and what to call when they are durable.
        """
        memory = self.by_name.pop(exchange.name, None)
        if memory is None:
            return [], []
        memory.close()
        if memory.log is None:
            return [], []
        return memory.log.close(), [memory.log.remove_files]

    def open(self, exchange: Exchange, partition: int) -> None:
        """Open the memory of an exchange, if its type has one; of a stored one before the log store recovers.

        Args:
            partition: number of its log; 0: it has none.
        """
        opened = partial(ExchangeLog, self._logs, partition, self._vhost, exchange.name)
        if exchange.type == DEDUPLICATION:
            log = opened() if partition else None
            options = deduplication_options(exchange)
            self.by_name[exchange.name] = SeenKeys(options, log, self._logs.now, self._limit)
        elif exchange.type == RECENT_HISTORY:
            log = opened() if partition else None
            self.by_name[exchange.name] = RecentHistory(history_length(exchange), log, self._limit)


def remembers_in_log(exchange: Exchange) -> bool:
    """Whether what an exchange remembers survives a restart."""
    if not exchange.durable:
        return False
    if exchange.type == DEDUPLICATION:
        return deduplication_options(exchange).is_persistent
    return exchange.type == RECENT_HISTORY
