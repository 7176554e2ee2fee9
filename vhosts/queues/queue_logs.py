"""Opening of the logs of a queue's partitions."""

from collections.abc import Sequence
from functools import partial

from routelog.log_backend import Durability, LogStore, PartitionLog, Scheduler
from routelog.vhosts.arguments.queue_arguments import (
    compression,
    durability,
    priority_max,
    retention,
)
from routelog.vhosts.partitions.priority_partition import PriorityPartition
from routelog.vhosts.partitions.priority_scan_budget import PriorityScanBudget
from routelog.vhosts.partitions.queue_partition import QueuePartition
from routelog.vhosts.queues.group_book import GroupBook
from routelog.vhosts.queues.queue import Queue


class QueueLogs:
    """The logs of a vhost's queues.

    A queue's arguments are evaluated once, not for each of its up to 256 partitions.
    """

    def __init__(
        self,
        vhost: str,
        logs: LogStore,
        groups: GroupBook,
        default_durability: Durability,
        scheduler: Scheduler,
    ) -> None:
        self._vhost = vhost
        self._logs = logs
        self._groups = groups
        self._default_durability = default_durability
        self._scheduler = scheduler

    def open(self, queue: Queue, numbers: Sequence[int]) -> None:
        """Open a queue on partitions of these numbers: those of an earlier run, or new ones."""
        properties, arguments = queue.properties, queue.properties.arguments
        opened = partial(
            self._logs.open_partition,
            durable=properties.is_stored,
            durability=durability(arguments, self._default_durability),
            retention=retention(arguments),
            compression=compression(arguments),
        )
        vhost, name, cursors = self._vhost, queue.name, self._groups.cursors
        queue.open(
            self._partitions(
                queue,
                [
                    opened(number, vhost, name, index, cursors=cursors(name, index))
                    for index, number in enumerate(numbers)
                ],
            )
        )

    def recovered(self, queue: Queue) -> None:
        """The journal was replayed into the logs of a queue: update the queue's partitions."""
        queue.open(self._partitions(queue, [each.log for each in queue.partitions]))

    def _partitions(self, queue: Queue, logs: Sequence[PartitionLog]) -> list[QueuePartition]:
        highest, on_ready = priority_max(queue.properties.arguments), queue.on_ready
        if highest:
            looks = PriorityScanBudget(self._scheduler)
            return [PriorityPartition(log, on_ready, looks, highest) for log in logs]
        return [QueuePartition(log, on_ready) for log in logs]
