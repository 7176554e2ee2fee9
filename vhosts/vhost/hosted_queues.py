"""What one store holds of a virtual host: logs of queues, consumer groups, held messages, exchange memories.

The vhost's definitions say what there is. This opens and closes it, and says which changes of metadata the
journal needs together with those of a definition.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from routelog.exchanges import Exchange
from routelog.log_backend import (
    CallLater,
    Change,
    Durability,
    LogStore,
    LogTransaction,
    MetadataStore,
    PartitionLog,
    Scheduler,
)
from routelog.vhosts.arguments.queue_arguments import (
    compression,
    durability,
    priority_max,
    retention,
)
from routelog.vhosts.arguments.queue_properties import QueueProperties
from routelog.vhosts.counters.totals import NodeCounters
from routelog.vhosts.delays.delay_book import DelayBook
from routelog.vhosts.partitions.priority_partition import PriorityPartition
from routelog.vhosts.partitions.priority_scan_budget import PriorityScanBudget
from routelog.vhosts.partitions.queue_partition import QueuePartition
from routelog.vhosts.publishing.exchange_memories import ExchangeMemories, TakeNumbers
from routelog.vhosts.publishing.exchange_memory_limit import ExchangeMemoryLimit
from routelog.vhosts.publishing.internal_publisher import InternalPublisher
from routelog.vhosts.queues.group_book import GroupBook
from routelog.vhosts.queues.queue import Queue
from routelog.vhosts.rules.rule_services import RuleServices
from routelog.vhosts.stored.topology_record import queue_change
from routelog.vhosts.stored.topology_writer import TopologyWriter


@dataclass(frozen=True, slots=True)
class QueueStore:
    """A store of queues, as all vhosts share it.

    Attributes:
        writer: makes changes of metadata durable.
        take_numbers: gives numbers to partitions, each once.
        memory_limit: of what exchanges remember.
    """

    logs: LogStore
    writer: TopologyWriter
    take_numbers: TakeNumbers
    scheduler: Scheduler
    call_later: CallLater
    default_durability: Durability
    memory_limit: ExchangeMemoryLimit


class HostedQueues:
    """The part of a vhost that lies in one store.

    Attributes:
        groups: consumer groups.
        delays: what delayed message exchanges hold.
        memories: what exchanges remember.

    Args:
        post: publishes messages of the vhost itself.
        remove: deletes a queue whose lease ended, by its name.
    """

    def __init__(
        self,
        vhost: str,
        store: QueueStore,
        counters: NodeCounters,
        post: InternalPublisher,
        remove: Callable[[str], None],
    ) -> None:
        self._vhost = vhost
        self._logs = logs = store.logs
        self._store = store
        self._counters = counters
        self._rule_services = RuleServices(logs, post, remove, store.scheduler, store.call_later)
        self.groups = GroupBook(vhost, logs, store.writer, store.scheduler)
        self.memories = ExchangeMemories(vhost, logs, store.take_numbers, store.memory_limit)
        self.delays = DelayBook(
            vhost, logs, store.take_numbers, self._rule_services, store.default_durability
        )

    def load(self, metadata: MetadataStore) -> None:
        """Open what the metadata have of delays, and read the groups; queues are opened afterwards."""
        self.delays.load(metadata)
        self.groups.load(metadata)

    def recovered(self, queue: Queue) -> None:
        """The journal was replayed into the logs of a queue."""
        queue.open(self._partitions(queue, [each.log for each in queue.partitions]))
        queue.apply(queue.properties.arguments)
        self.groups.recovered(queue)

    # -- queues

    def open(
        self, properties: QueueProperties, owner: object | None, numbers: Sequence[int]
    ) -> Queue:
        """Open a queue on partitions of these numbers: those of an earlier run, or new ones."""
        name, arguments = properties.name, properties.arguments
        queue = Queue(
            self._vhost,
            properties,
            owner,
            self._store.scheduler,
            self._rule_services,
            self._counters.queue(str(arguments.get("x-queue-type", "classic"))),
            self.groups.attach,
        )
        # The arguments are evaluated once, not for each of up to 256 partitions.
        opened = partial(
            self._logs.open_partition,
            durable=properties.is_stored,
            durability=durability(arguments, self._store.default_durability),
            retention=retention(arguments),
            compression=compression(arguments),
        )
        vhost, cursors = self._vhost, self.groups.cursors
        logs = [
            opened(number, vhost, name, index, cursors=cursors(name, index))
            for index, number in enumerate(numbers)
        ]
        queue.open(self._partitions(queue, logs))
        return queue

    def _partitions(self, queue: Queue, logs: Sequence[PartitionLog]) -> list[QueuePartition]:
        highest, on_ready = priority_max(queue.properties.arguments), queue.on_ready
        if highest:
            looks = PriorityScanBudget(self._store.scheduler)
            return [PriorityPartition(log, on_ready, looks, highest) for log in logs]
        return [QueuePartition(log, on_ready) for log in logs]

    def close(self, queue: Queue) -> tuple[list[Change], list[Callable[[], None]]]:
        """Close the logs and groups of a queue that is being deleted, and tell its consumers.

        Returns:
            Metadata changes to apply, and what to call when they are durable.
        """
        logs = [partition.log for partition in queue.partitions]
        changes = self.groups.queue_deleted(queue)
        changes += self._logs.close_partitions(*logs)
        queue.delete()
        if not queue.is_stored:
            return changes, []
        numbers = [each.number for each in logs]
        changes.append(queue_change(self._vhost, queue.properties, numbers, deleted=True))
        # Before a later declaration of this name is answered: futures resolve in order.
        return changes, [partial(self._logs.remove_files, *logs)]

    # -- exchanges

    def exchange_declared(self, exchange: Exchange) -> tuple[int, list[Change]]:
        """An exchange has come.

        Returns:
            The number of the log that it remembers in or 0, and metadata changes to apply with its declaration.
        """
        number, changes = self.memories.declared(exchange)
        return number, changes + self.delays.declared(exchange)

    def exchanges_undone(self, exchanges: Iterable[Exchange]) -> None:
        """The declarations of exchanges cannot be stored: forget these exchanges."""
        self.memories.undone(exchanges)
        self.delays.undone(exchanges)

    def exchange_deleted(self, exchange: Exchange) -> tuple[list[Change], list[Callable[[], None]]]:
        """An exchange has gone; see `close`."""
        changes, removals = self.memories.deleted(exchange)
        more_changes, more_removals = self.delays.deleted(exchange)
        return changes + more_changes, removals + more_removals

    def deletion_failed(self, error: Exception) -> None:
        """See `LogStore`."""
        self._logs.deletion_failed(error)

    # -- transactions

    def transaction(self) -> LogTransaction:
        """See `LogStore`."""
        return self._logs.transaction()

    @property
    def is_committing(self) -> bool:
        """The journal's block is open for several turns: a transaction that takes as many has to wait."""
        return self._logs.intake.is_committing or self._logs.journal.is_held
