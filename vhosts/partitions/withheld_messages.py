"""Messages that an operator took out of their order, on their way out of the queue."""

from collections.abc import Callable, Sequence

from routelog.log_backend import Reason, SettledPart
from routelog.vhosts.counters.counters import MessageCounters
from routelog.vhosts.messages.delivery import Delivery, ReturnReason
from routelog.vhosts.partitions.queue_partition import QueuePartition


class WithheldMessages:
    """Messages of a partition that were taken, as a `DeliverySource`: nobody else has to know of such ones."""

    def __init__(self, partition: QueuePartition) -> None:
        self.partition = partition

    def take(self, first: int, end: int) -> list[tuple[int, int]]:
        """See `QueuePartition.withhold`."""
        return self.partition.withhold(first, end)

    @property
    def counters(self) -> MessageCounters:
        """See `DeliverySource`."""
        return self.partition.counters

    @property
    def number(self) -> int:
        """See `DeliverySource`."""
        return self.partition.number

    @property
    def ready(self) -> int:
        """See `DeliverySource`."""
        return self.partition.ready

    def on_ready(self) -> None:
        """See `DeliverySource`."""
        self.partition.on_ready()

    def settle(self, first: int, end: int, reason: Reason = Reason.ACKED) -> None:
        """See `DeliverySource`."""
        self.partition.let_go(first, end)
        self.partition.settle(first, end, reason)

    def settlement(self, ranges: Sequence[tuple[int, int]], reason: Reason) -> SettledPart | None:
        """See `DeliverySource`."""
        return self.partition.settlement(ranges, reason)

    def committed(self, settled: Sequence[SettledPart]) -> None:
        """See `DeliverySource`."""
        self.partition.committed(settled)

    def carried_out(self, settled: Sequence[SettledPart]) -> None:
        """See `DeliverySource`."""
        self.partition.carried_out(settled)

    def give_back(self, first: int, end: int, reason: ReturnReason = ReturnReason.UNUSED) -> None:
        """See `DeliverySource`: they were in nobody's hands, so no rule counts it."""
        self.partition.put_back(first, end)

    def pause(self) -> None:
        """See `DeliverySource`."""
        self.partition.pause()

    def resume(self) -> None:
        """See `DeliverySource`."""
        self.partition.resume()

    def redeliver(
        self, first: int, end: int, bytes_max: int, when_loaded: Callable[[], None]
    ) -> tuple[int, Sequence[Delivery]]:
        """See `DeliverySource`: no consumer has them."""
        self.give_back(first, end)
        return end - first, ()

    def delivery_count(self, offset: int) -> int:
        """See `DeliverySource`."""
        return self.partition.delivery_count(offset)
