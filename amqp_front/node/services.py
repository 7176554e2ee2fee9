"""The services that all connections of a broker share."""

from collections import deque
from dataclasses import dataclass, field, fields
from typing import Self

from routelog.amqp_front.sockets.heartbeat import HeartbeatWheel
from routelog.amqp_front.wire.frame_cutter import FrameCutter
from routelog.broker import Logins, NodeServices

PROTOCOL = "AMQP 0-9-1"  # as events and pages name it


@dataclass(slots=True)
class Services(NodeServices):
    """The parts of a running broker that connections use: those of the node, and AMQP's own."""

    logins: Logins
    cutter: FrameCutter
    heartbeats: HeartbeatWheel
    settlings: deque[object] = field(default_factory=deque)

    @classmethod
    def of(cls, node: NodeServices) -> Self:
        """Those of a node that begins to take clients."""
        shared = {each.name: getattr(node, each.name) for each in fields(node)}
        config = node.config
        return cls(
            **shared,
            logins=Logins(config, node.users, node.passwords, node.vhosts.events, PROTOCOL),
            cutter=FrameCutter(config.frame_max, config.message_bytes_max),
            heartbeats=HeartbeatWheel(node.loop, node.scheduler),
        )
