"""What one store holds of a virtual host: logs of queues, consumer groups, held messages, exchange memories.

The vhost's definitions say what there is. This opens and closes it, and says which changes of metadata the
journal needs together with those of a definition.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial

from routelog.exchanges import DELAYED_TYPE, Exchange
from routelog.log_backend import (
    CallLater,
    Change,
    Durability,
    LogStore,
    MetadataWriter,
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
from routelog.vhosts.delays.message_delay import PARTS
from routelog.vhosts.partitions.priority_order import prioritize
from routelog.vhosts.partitions.queue_partition import QueuePartition
from routelog.vhosts.publishing.exchange_memories import ExchangeMemories, remembers_in_log
from routelog.vhosts.publishing.exchange_memory_limit import ExchangeMemoryLimit
from routelog.vhosts.publishing.internal_publisher import InternalPublisher
from routelog.vhosts.queues.group_book import GroupBook
from routelog.vhosts.queues.queue import Queue
from routelog.vhosts.rules.awaited_consumers import AwaitedConsumers
from routelog.vhosts.rules.rule_services import RuleServices
from routelog.vhosts.stored.topology_record import delay_change, exchange_change, queue_change

TakeNumbers = Callable[[int], tuple[list[int], Change]]


@dataclass(frozen=True, slots=True)
class QueueStore:
    """A store of queues, as all vhosts share it.

    Attributes:
        writer: makes changes of metadata durable.
        take_numbers: gives numbers to partitions, each once.
        memory_limit: of what exchanges remember.
        disabled_types: of queues that are not made any more.
        awaited: consumers of other nodes.
        has_fronts: other processes of this node route by its definitions.
    """

    logs: LogStore
    writer: MetadataWriter
    take_numbers: TakeNumbers
    scheduler: Scheduler
    call_later: CallLater
    default_durability: Durability
    memory_limit: ExchangeMemoryLimit
    disabled_types: Collection[str]
    awaited: AwaitedConsumers
    has_fronts: bool = False

    @property
    def keeps_all(self) -> bool:
        """Whether definitions that are not durable have records, too: others route by them."""
        return self.has_fronts or self.logs.journal.is_replicated


class HostedQueues:
    """The part of a vhost that lies in one store.

    Attributes:
        logs: the store.
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
        self.logs = logs = store.logs
        self._store = store
        self._counters = counters
        self._rule_services = RuleServices(
            logs, post, remove, store.scheduler, store.call_later, store.awaited
        )
        self.groups = GroupBook(vhost, logs, store.writer, store.scheduler)
        self.memories = ExchangeMemories(vhost, logs, store.memory_limit)
        self.delays = DelayBook(vhost, logs, self._rule_services, store.default_durability)

    def begin(self) -> None:
        """The journal accepts entries, and memories are loaded: send dead letters, and what is due."""
        self._rule_services.has_begun = True
        self.delays.start()

    # -- queues

    def open_logs(self, properties: QueueProperties, numbers: Sequence[int]) -> list[PartitionLog]:
        """Open the logs of a queue: those of an earlier run, or new ones."""
        name, arguments = properties.name, properties.arguments
        # The arguments are evaluated once, not for each of up to 256 partitions.
        opened = partial(
            self.logs.open_partition,
            durable=properties.is_stored,
            durability=durability(arguments, self._store.default_durability),
            retention=retention(arguments),
            compression=compression(arguments),
        )
        vhost, cursors = self._vhost, self.groups.cursors
        return [
            opened(number, vhost, name, index, cursors=cursors(name, index))
            for index, number in enumerate(numbers)
        ]

    def open(
        self, properties: QueueProperties, owner: object | None, logs: Sequence[PartitionLog]
    ) -> Queue:
        """Open a queue on its logs, which have recovered, or are new."""
        queue = Queue(
            self._vhost,
            properties,
            owner,
            self._store.scheduler,
            self._rule_services,
            self._counters.queue(properties.type),
            self.groups.attach,
        )
        queue.open(self._partitions(queue, logs))
        return queue

    def _partitions(self, queue: Queue, logs: Sequence[PartitionLog]) -> list[QueuePartition]:
        partitions = [QueuePartition(log, queue.on_ready) for log in logs]
        prioritize(partitions, priority_max(queue.properties.arguments), self._store.scheduler)
        return partitions

    def changed(self, queue: Queue) -> None:
        """A queue has other arguments: its partitions go by them."""
        own, values = queue.properties.arguments, queue.effective.values
        kept = None if retention(own) is None else retention(values)
        for partition in queue.partitions:
            partition.log.promise(durability(values, self._store.default_durability))
            self.logs.change_partition(partition.log, kept, compression(own))
        prioritize(queue.partitions, priority_max(own), self._store.scheduler)
        queue.counters.count_with(self._counters.queues[queue.type])
        queue.wake()

    def close(self, queue: Queue) -> tuple[list[Change], list[Callable[[], None]]]:
        """Close the logs and groups of a queue that is being deleted, and tell its consumers.

        Returns:
            Metadata changes to apply, and what to call when they are durable.
        """
        logs = [partition.log for partition in queue.partitions]
        changes = self.groups.queue_deleted(queue)
        changes += self.logs.close_partitions(*logs)
        queue.delete()
        if queue.is_stored or self._store.keeps_all:
            changes.append(queue_change(self._vhost, queue.properties, [], deleted=True))
        if not queue.is_stored:
            return changes, []
        # Before a later declaration of this name is answered: futures resolve in order.
        return changes, [partial(self.logs.remove_files, *logs)]

    # -- exchanges

    def new_exchange(self, exchange: Exchange) -> tuple[list[int], list[Change]]:
        """An exchange is being declared.

        Returns:
            Numbers for the logs that it needs, and metadata changes to apply with its declaration.
        """
        is_delayed = exchange.type == DELAYED_TYPE
        count = PARTS if is_delayed else int(remembers_in_log(exchange))
        numbers, number_change = self._store.take_numbers(count)
        if not (exchange.durable or self._store.keeps_all):
            return numbers, []
        own_log = numbers[0] if numbers and not is_delayed else 0
        changes = [exchange_change(self._vhost, exchange, own_log)]
        if numbers:
            changes.append(number_change)
        if is_delayed and exchange.durable:
            changes.append(delay_change(self._vhost, exchange.name, numbers))
        return numbers, changes

    def open_exchange(self, exchange: Exchange, numbers: Sequence[int]) -> None:
        """Open what an exchange holds or remembers, on partitions of these numbers."""
        if exchange.type == DELAYED_TYPE:
            self.delays.open(exchange, numbers)
        else:
            self.memories.open(exchange, numbers[0] if numbers else 0)

    def exchange_deleted(self, exchange: Exchange) -> tuple[list[Change], list[Callable[[], None]]]:
        """An exchange has gone; see `close`."""
        held = self.delays if exchange.type == DELAYED_TYPE else self.memories
        changes, removals = held.deleted(exchange)
        if exchange.durable or self._store.keeps_all:
            changes.append(exchange_change(self._vhost, exchange, deleted=True))
        return changes, removals
