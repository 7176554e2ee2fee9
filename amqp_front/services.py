"""What all connections of a broker share."""

import asyncio
from collections import deque
from dataclasses import dataclass, field

from amqp_front.configuration import BrokerConfig
from amqp_front.confirm_board import ConfirmBoard
from amqp_front.cork import Cork
from amqp_front.direct_reply import DirectReplies
from amqp_front.farewells import Farewells
from amqp_front.frame_cutter import FrameCutter
from amqp_front.gate import PublisherGate
from amqp_front.heartbeat import HeartbeatWheel
from amqp_front.intake_budget import IntakeBudget
from amqp_front.piecework import Piecework, Work
from amqp_front.rota import Rota
from log_backend import Clock
from vhosts import Admission, GlobalParameters, PasswordVerifier, UserDirectory, VhostDirectory


@dataclass(slots=True)
class Services:
    """The parts of a running broker that connections use."""

    config: BrokerConfig
    loop: asyncio.AbstractEventLoop
    clock: Clock
    cork: Cork
    rota: Rota
    cutter: FrameCutter
    vhosts: VhostDirectory
    users: UserDirectory
    passwords: PasswordVerifier
    parameters: GlobalParameters
    admission: Admission
    confirms: ConfirmBoard
    gate: PublisherGate
    intake: IntakeBudget
    heartbeats: HeartbeatWheel
    node_name: str
    farewells: Farewells
    replies: DirectReplies = field(default_factory=DirectReplies)
    piecework: set[Piecework] = field(default_factory=set)
    settlings: deque[Work] = field(default_factory=deque)

    def cluster_name(self) -> str:
        """What clients are told that they have connected to."""
        return self.parameters.cluster_name(self.node_name)
