"""The services that all connections of a broker share."""

import asyncio
from collections import deque
from dataclasses import dataclass, field

from routelog.amqp_front.node.close_throttle import CloseThrottle
from routelog.amqp_front.node.direct_reply import DirectReplies
from routelog.amqp_front.sockets.heartbeat import HeartbeatWheel
from routelog.amqp_front.sockets.rota import Rota
from routelog.amqp_front.wire.frame_cutter import FrameCutter
from routelog.broker import (
    BrokerConfig,
    ConfirmBoard,
    Cork,
    DeliverySamples,
    IntakeBudget,
    PublisherGate,
    PublisherPace,
)
from routelog.log_backend import Clock, Scheduler
from routelog.vhosts import (
    Admission,
    GlobalParameters,
    PasswordVerifier,
    UserDirectory,
    VhostDirectory,
)


@dataclass(slots=True)
class Services:
    """The parts of a running broker that connections use."""

    config: BrokerConfig
    loop: asyncio.AbstractEventLoop
    clock: Clock
    cork: Cork
    scheduler: Scheduler
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
    close_throttle: CloseThrottle
    replies: DirectReplies = field(default_factory=DirectReplies)
    settlings: deque[object] = field(default_factory=deque)
    pace: PublisherPace = field(init=False)
    deliveries: DeliverySamples = field(init=False)

    def __post_init__(self) -> None:
        """Put together what hangs on the others."""
        self.pace = PublisherPace(self.loop, self.cork, self.confirms)
        self.deliveries = DeliverySamples(self.clock)

    def cluster_name(self) -> str:
        """The cluster name in connection.start; nodes of a cluster have the same."""
        config = self.config
        return self.parameters.cluster_name(
            config.cluster_name if config.cluster_nodes else self.node_name
        )
