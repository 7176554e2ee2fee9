"""A node takes its commands from the coordinator; node and coordinator are the test's."""

import asyncio
from collections.abc import Coroutine
from types import SimpleNamespace

import pytest

from routelog.mirror_cluster.coordination.coordinator import (
    ClusterView,
    CoordinatorUnavailable,
    NodeCommand,
    Verb,
)
from routelog.mirror_cluster.node.operator_commands import OperatorCommands
from routelog.mirror_cluster.replica.events import Drain, Event, RecoverWithLoss, Transfer


class CommandedNode:
    """Process 7 of node a."""

    name, process = "a", 7

    def __init__(self) -> None:
        self.done: list[Event | str] = []
        self.is_there: bool | Exception = True
        self.coordinator = SimpleNamespace(take=self.take)
        self.replica = SimpleNamespace(serving=False)
        self.replicas = {0: SimpleNamespace(replica=self.replica)}
        self.tasks: list[asyncio.Task] = []
        self.commands = OperatorCommands(
            self,
            0,
            lambda revision: self.done.append(f"begin in the place of {revision}"),
            lambda: self.done.append("repair"),
        )

    async def take(self, command: NodeCommand) -> bool:
        if isinstance(self.is_there, Exception):
            raise self.is_there
        return self.is_there

    def spawn(self, work: Coroutine) -> asyncio.Task:
        self.tasks.append(asyncio.create_task(work))
        return self.tasks[-1]

    def handle(self, shard: int, event: Event) -> None:
        self.done.append(event)

    def read_soon(self) -> None:
        pass

    async def see(self, command: NodeCommand) -> None:
        self.commands.on_view(ClusterView(9, commands={command.node: command}))
        await asyncio.gather(*self.tasks)


@pytest.mark.parametrize(
    ("command", "done"),
    [
        (NodeCommand("a", 7, Verb.TRANSFER, "b", revision=1), Transfer("b")),
        (NodeCommand("a", 7, Verb.DRAIN, revision=1), Drain()),
        (NodeCommand("a", 7, Verb.INIT, seen=5, revision=1), "begin in the place of 5"),
        (NodeCommand("a", 7, Verb.RECOVER, seen=5, revision=1), RecoverWithLoss(5)),
        (NodeCommand("a", 7, Verb.REPAIR, revision=1), "repair"),
    ],
)
async def test_a_command_is_carried_out_once(command: NodeCommand, done: Event | str) -> None:
    node = CommandedNode()
    await node.see(command)
    await node.see(command)
    assert node.done == [done]


@pytest.mark.parametrize("goes_on", [True, False])
async def test_a_leader_says_that_nobody_else_could_lead(
    goes_on: bool, caplog: pytest.LogCaptureFixture
) -> None:
    node = CommandedNode()
    node.replica.serving = goes_on
    await node.see(NodeCommand("a", 7, Verb.TRANSFER, revision=1))
    assert ("no other one is in sync" in caplog.text) == goes_on


async def test_what_another_process_or_node_is_told_is_left_alone() -> None:
    node = CommandedNode()
    await node.see(NodeCommand("a", 6, Verb.DRAIN, revision=1))
    await node.see(NodeCommand("b", 7, Verb.DRAIN, revision=2))
    assert node.done == []


@pytest.mark.parametrize("answer", [False, CoordinatorUnavailable("away")])
async def test_a_command_that_was_not_taken_is_not_carried_out(answer: bool | Exception) -> None:
    node = CommandedNode()
    node.is_there = answer
    await node.see(NodeCommand("a", 7, Verb.DRAIN, revision=1))
    assert node.done == []
