"""What a node shares with all that speaks to its clients."""

import asyncio
from dataclasses import dataclass

from routelog.broker.loop.cork import Cork
from routelog.broker.node.configuration import BrokerConfig
from routelog.broker.node.delivery_samples import DeliverySamples
from routelog.broker.waiting.confirm_board import ConfirmBoard
from routelog.broker.waiting.gate import PublisherGate
from routelog.broker.waiting.intake_budget import IntakeBudget
from routelog.broker.waiting.publisher_pace import PublisherPace
from routelog.log_backend import Clock, Scheduler
from routelog.vhosts import (
    Admission,
    GlobalParameters,
    PasswordVerifier,
    UserDirectory,
    VhostDirectory,
)


@dataclass(slots=True)
class NodeServices:
    """The parts of a node that takes clients, whatever they speak."""

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
    confirms: ConfirmBoard
    gate: PublisherGate
    intake: IntakeBudget
    pace: PublisherPace
    deliveries: DeliverySamples
    node_name: str

    def cluster_name(self) -> str:
        """What clients are told; nodes of a cluster have the same."""
        config = self.config
        return self.parameters.cluster_name(
            config.cluster_name if config.cluster_nodes else self.node_name
        )
