"""What is measured of some deliveries: how long messages waited for theirs, and how large they are."""

from routelog.log_backend import Clock, Histogram
from routelog.vhosts import Delivery, RemotePartition

# From a consumer that waits for the message to a queue that was a store for a day.
DELIVERY_SECONDS = (
    *(0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0),
    *(60.0, 600.0, 3_600.0, 86_400.0),
)
# As RabbitMQ's `rabbitmq_message_size_bytes`.
MESSAGE_BYTES = (100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 50_000_000, 100_000_000)


class DeliverySamples:
    """The samples of a broker: see `SAMPLED_ONE_IN` of `channel_consumer.py`.

    Attributes:
        waits: seconds from publishing to delivery, of messages that were not delivered before.
        sizes: bytes of the body of the first message of a delivery.

    Args:
        in_cluster: the clock of another node says when its messages came in: their waits are not measured.
    """

    def __init__(self, clock: Clock, *, in_cluster: bool = False) -> None:
        self._clock = clock
        self._in_cluster = in_cluster
        self.waits = Histogram(DELIVERY_SECONDS)
        self.sizes = Histogram(MESSAGE_BYTES)

    def take(self, delivery: Delivery) -> None:
        """Measure a delivery. Cost: 1 us."""
        records, at = delivery.records, delivery.index
        offsets = records.offset_columns()
        self.sizes.observe(offsets[at + 1] - offsets[at])
        is_timed = not (self._in_cluster and isinstance(delivery.partition, RemotePartition))
        if is_timed and not delivery.redelivered:
            self.waits.observe(max(0, self._clock.now() - records.time) / 1_000_000)
