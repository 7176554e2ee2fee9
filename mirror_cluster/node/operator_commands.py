"""Commands of operators: a node takes its own from the coordinator, and carries each out at most once."""

import logging
from collections.abc import Callable

from routelog.mirror_cluster.coordination.coordinator import (
    ClusterView,
    CoordinatorRefused,
    CoordinatorUnavailable,
    NodeCommand,
    Verb,
)
from routelog.mirror_cluster.node.cluster_node import ClusterNode
from routelog.mirror_cluster.replica.events import Drain, RecoverWithLoss, Transfer

log = logging.getLogger(__name__)


class OperatorCommands:
    """Takes and carries out commands.

    What came of a command is seen in the shard's record; nothing else answers.

    Args:
        begin: makes the shard's record in the place of that of a revision, with the data of this node.
        repair: gives up the data of this node, if others have everything.
    """

    def __init__(
        self,
        node: ClusterNode,
        shard: int,
        begin: Callable[[int], None],
        repair: Callable[[], None],
    ) -> None:
        self._node = node
        self._shard = shard
        self._begin = begin
        self._repair = repair
        self._taken = 0  # revision of the newest one

    def on_view(self, view: ClusterView) -> None:
        """Take this node's command, if there is one: the coordinator was read."""
        command = view.commands.get(self._node.name)
        if command is None or command.process != self._node.process:
            return
        if command.revision > self._taken:
            self._taken = command.revision
            self._node.spawn(self._take(command))

    async def _take(self, command: NodeCommand) -> None:
        try:
            if not await self._node.coordinator.take(command):
                return
        except (CoordinatorUnavailable, CoordinatorRefused) as error:
            log.warning("the operator's command %s is not carried out: %s", command.verb, error)
            return
        log.info("the operator's command: %s %s", command.verb, command.to)
        self._carry_out(command)
        self._node.read_soon()

    def _carry_out(self, command: NodeCommand) -> None:
        match command.verb:
            case Verb.TRANSFER:
                self._node.handle(self._shard, Transfer(command.to))
                if self._node.replicas[self._shard].replica.serving:
                    log.warning("this node goes on: no other one is in sync and connected just now")
            case Verb.DRAIN:
                self._node.handle(self._shard, Drain())
            case Verb.INIT:
                self._begin(command.seen)
            case Verb.RECOVER:
                self._node.handle(self._shard, RecoverWithLoss(command.seen))
            case Verb.REPAIR:
                self._repair()
