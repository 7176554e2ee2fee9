"""What a node shares with all that speaks to its clients."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from routelog.broker.loop.cork import Cork
from routelog.broker.node.configuration import BrokerConfig
from routelog.broker.node.delivery_samples import DeliverySamples
from routelog.broker.node.direct_reply import DirectReplies
from routelog.broker.waiting.consumer_gates import ConsumerGates
from routelog.broker.waiting.gate import Gate
from routelog.broker.waiting.intake_budget import IntakeBudget
from routelog.broker.waiting.publish_rates import PublishRates
from routelog.log_backend import Clock, Progress, Scheduler
from routelog.vhosts import (
    Admission,
    GlobalParameters,
    PasswordVerifier,
    UserDirectory,
    VhostDirectory,
)


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
    publish_rates: PublishRates
    deliveries: DeliverySamples
    node_name: str
    replies: DirectReplies

    def cluster_name(self) -> str:
        """What clients are told; nodes of a cluster have the same."""
        config = self.config
        return self.parameters.cluster_name(
            config.cluster_name if config.cluster_nodes else self.node_name
        )
