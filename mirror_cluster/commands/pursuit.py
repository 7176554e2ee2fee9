"""A goal is pursued: nodes are told what brings it nearer, until it is reached or the time is over."""

import asyncio
import math
from contextlib import suppress
from dataclasses import replace

from routelog.log_backend import Clock
from routelog.mirror_cluster.commands.goals import Goal
from routelog.mirror_cluster.coordination.coordinator import (
    ClusterView,
    CoordinatorRefused,
    CoordinatorUnavailable,
    NodeCommand,
    Verb,
)
from routelog.mirror_cluster.coordination.etcd_coordinator import EtcdCoordinator
from routelog.mirror_cluster.protocol.shard_record import ShardRecord

READ_SECONDS = 0.1
# Until a node that took a command is told once more: when no other one could lead just then, a leader has given
# the command up after `LAG_LEASES`, and took clients again.
REPEAT_LEASES = 5


class Pursuit:
    """Tells nodes what brings a goal nearer.

    Attributes:
        view: what the coordinator held when it was read last.

    Args:
        view: what the goal began with.
        seconds: for all of it; what no node has taken by then, none takes later.
    """

    def __init__(
        self,
        coordinator: EtcdCoordinator,
        goal: Goal,
        view: ClusterView,
        seconds: float,
        clock: Clock,
        lease_seconds: int = 2,
    ) -> None:
        self.view = view
        self._coordinator = coordinator
        self._goal = goal
        self._seconds = seconds
        self._clock = clock
        self._repeat_seconds = REPEAT_LEASES * lease_seconds
        self._sent: list[NodeCommand] = []
        # By process: one that starts again is told anew
        self._sent_at: dict[tuple[Verb, int], float] = {}

    async def run(self) -> str:
        """Returns why the goal was not reached; nothing when it was."""
        try:
            async with asyncio.timeout(self._seconds):
                while not self._goal.is_reached(self.view, self._sent):
                    # A node that starts again takes its etcd with it
                    with suppress(CoordinatorUnavailable):
                        await self._send(self._goal.command(self.view))
                        await self._change(self._goal.change(self.view))
                    await asyncio.sleep(READ_SECONDS)
                    with suppress(CoordinatorUnavailable):
                        self.view = await self._coordinator.read()
        except TimeoutError:
            return f"not done within {self._seconds:g} s: {await self._why()}"
        return ""

    async def _send(self, command: NodeCommand | None) -> None:
        if command is None or command.node in self.view.commands:
            return
        told, now = (command.verb, command.process), self._clock.monotonic()
        if now - self._sent_at.get(told, -math.inf) < self._repeat_seconds:
            return
        made = await self._coordinator.command(command, math.ceil(self._seconds))
        if made is not None:
            self._sent.append(made)
            self._sent_at[told] = now

    async def _change(self, record: ShardRecord | None) -> None:
        # By compare-and-set: when a node has changed it meanwhile, the next view is another one.
        if record is not None:
            changed = replace(record, changed_at=self._clock.now())
            await self._coordinator.propose(changed, self.view.records.get(record.shard))

    async def _why(self) -> str:
        waits = [each for each in self._sent if await self._withdrawn(each)]
        if not self._sent:
            return "no node could be told"
        last = self._sent[-1]
        told = f"{last.node} was told to {last.verb}"
        if waits:
            told = f"{waits[0].node} has not taken the command"
        elif last.verb is not Verb.DRAIN:
            told += "; its log may say why that was not possible"
        # What was to follow may have become impossible, as with a repair when another member has died.
        if any(each.verb is Verb.DRAIN and each not in waits for each in self._sent):
            told += (
                f"; {last.node} drains until it starts again: repeat this, or restart {last.node}"
            )
        return told

    async def _withdrawn(self, command: NodeCommand) -> bool:
        try:
            return await self._coordinator.take(command)
        except (CoordinatorUnavailable, CoordinatorRefused):
            return False  # it goes by itself
