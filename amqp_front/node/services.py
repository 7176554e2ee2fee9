"""The services that all connections of a broker share."""

from collections import deque
from dataclasses import dataclass, field, fields
from typing import Self

from routelog.amqp_front.node.close_throttle import CloseThrottle
from routelog.amqp_front.node.direct_reply import DirectReplies
from routelog.amqp_front.sockets.heartbeat import HeartbeatWheel
from routelog.amqp_front.sockets.rota import Rota
from routelog.amqp_front.wire.frame_cutter import FrameCutter
from routelog.broker import NodeServices


@dataclass(slots=True)
class Services(NodeServices):
    """The parts of a running broker that connections use: those of the node, and AMQP's own."""

    rota: Rota
    cutter: FrameCutter
    heartbeats: HeartbeatWheel
    close_throttle: CloseThrottle
    replies: DirectReplies = field(default_factory=DirectReplies)
    settlings: deque[object] = field(default_factory=deque)

    @classmethod
    def of(cls, node: NodeServices) -> Self:
        """Those of a node that begins to take clients."""
        shared = {each.name: getattr(node, each.name) for each in fields(node)}
        config, loop = node.config, node.loop
        return cls(
            **shared,
            rota=Rota(loop, node.clock, node.cork),
            cutter=FrameCutter(config.frame_max, config.message_bytes_max),
            heartbeats=HeartbeatWheel(loop),
            close_throttle=CloseThrottle(loop.call_soon),
        )
