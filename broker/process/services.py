"""What a node shares with all that speaks to its clients."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from routelog.broker.loop.cork import Cork
from routelog.broker.node.configuration import BrokerConfig
from routelog.broker.waiting.consumer_gates import ConsumerGates
from routelog.broker.waiting.gate import Gate
from routelog.broker.waiting.intake_budget import IntakeBudget
from routelog.log_backend import Clock, Histogram, Progress, Scheduler
from routelog.vhosts import (
    Admission,
    Delivery,
    GlobalParameters,
    PasswordVerifier,
    UserDirectory,
    VhostDirectory,
)

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
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.waits = Histogram(DELIVERY_SECONDS)
        self.sizes = Histogram(MESSAGE_BYTES)

    def take(self, delivery: Delivery) -> None:
        """Measure a delivery. Cost: 1 us."""
        records, at = delivery.records, delivery.index
        offsets = records.offset_columns()
        self.sizes.observe(offsets[at + 1] - offsets[at])
        if not delivery.redelivered:
            self.waits.observe(max(0, self._clock.now() - records.time) / 1_000_000)


@dataclass(slots=True)
class NodeServices:
    """The parts of a node that takes clients, whatever they speak.

    Attributes:
        progress: of the journal here.
        in_time: what is done, or fails when that takes too long: see `ConfirmDeadline`.
    """

    config: BrokerConfig
    loop: asyncio.AbstractEventLoop
    clock: Clock
    cork: Cork
    scheduler: Scheduler
    vhosts: VhostDirectory
    users: UserDirectory
    passwords: PasswordVerifier
    parameters: GlobalParameters
    admission: Admission
    progress: Progress
    in_time: Callable[[Awaitable[object]], Awaitable[object]]
    gate: Gate
    intake: IntakeBudget
    consumer_gates: ConsumerGates
    deliveries: DeliverySamples
    node_name: str

    def cluster_name(self) -> str:
        """What clients are told; nodes of a cluster have the same."""
        config = self.config
        return self.parameters.cluster_name(
            config.cluster_name if config.cluster_nodes else self.node_name
        )
