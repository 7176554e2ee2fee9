"""Commands are left for nodes until a goal is reached; the test is coordinator and goal."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace

import pytest

from routelog.log_backend import SystemClock
from routelog.mirror_cluster.commands import pursuit
from routelog.mirror_cluster.commands.pursuit import Pursuit
from routelog.mirror_cluster.coordination.coordinator import (
    ClusterView,
    CoordinatorUnavailable,
    NodeCommand,
    Verb,
)
from routelog.mirror_cluster.protocol.shard_record import ShardRecord

COMMAND = NodeCommand("a", 1, Verb.TRANSFER)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pursuit, "READ_SECONDS", 0.001)


class Cluster:
    """A goal that is reached after some reads, and a coordinator whose node takes commands or does not."""

    def __init__(self, reads: int = 1_000_000, takes: bool = True) -> None:
        self.reads = reads
        self.takes = takes
        self.verb = Verb.TRANSFER
        self.then: Verb | None = None
        self.commands: list[NodeCommand] = []
        self.waiting: dict[str, NodeCommand] = {}
        self.is_away = 0

    def refusal(self) -> str:
        return ""

    def command(self, view: ClusterView) -> NodeCommand | None:
        if self.reads < 0:
            return None
        verb = self.verb if self.then is None or not self.commands else self.then
        return replace(COMMAND, verb=verb)

    def change(self, view: ClusterView) -> ShardRecord | None:
        return None

    def is_reached(self, view: ClusterView, sent: Sequence[NodeCommand]) -> bool:
        return self.reads == 0

    async def read(self) -> ClusterView:
        if self.is_away:
            self.is_away -= 1
            raise CoordinatorUnavailable
        self.reads -= 1
        return ClusterView(1, commands=dict(self.waiting))

    async def take(self, command: NodeCommand) -> bool:
        waits = self.waiting.get(command.node) == command
        return waits and self.waiting.pop(command.node) == command

    async def run(self) -> str:
        return await Pursuit(
            Leaving(self), self, ClusterView(1, commands=self.waiting), 0.2, SystemClock()
        ).run()


class Leaving:
    """The coordinator's side of `command`, whose name a goal has, too."""

    def __init__(self, cluster: Cluster) -> None:
        self.read, self.take = cluster.read, cluster.take
        self._cluster = cluster

    async def command(self, command: NodeCommand, seconds: int) -> NodeCommand | None:
        assert seconds == 1, "it goes by itself, not before the time is over"
        made = replace(command, revision=5 + len(self._cluster.commands))
        self._cluster.commands.append(made)
        if not self._cluster.takes or command.verb is self._cluster.then:
            self._cluster.waiting[command.node] = made
        return made


async def test_a_node_is_told_once() -> None:
    cluster = Cluster(reads=3)
    assert await cluster.run() == ""
    assert len(cluster.commands) == 1


async def test_a_node_that_could_not_is_told_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pursuit, "REPEAT_LEASES", 0)
    cluster = Cluster(reads=3)
    assert await cluster.run() == ""
    assert len(cluster.commands) == 3


async def test_a_coordinator_may_be_away_for_a_while() -> None:
    cluster = Cluster(reads=3)
    cluster.is_away = 2
    assert await cluster.run() == ""


async def test_a_coordinator_that_refuses_commands_is_asked_after_a_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps: list[str] = []

    async def sleep(seconds: float) -> None:
        steps.append("pause")

    async def command(self: Leaving, command: NodeCommand, seconds: int) -> NodeCommand | None:
        steps.append("command")
        assert len(steps) < 100, "there is no pause"
        raise CoordinatorUnavailable

    waiting = SimpleNamespace(sleep=sleep, timeout=asyncio.timeout)
    monkeypatch.setattr(pursuit, "asyncio", waiting)
    monkeypatch.setattr(Leaving, "command", command)
    assert await Cluster(reads=3).run() == ""
    assert steps == ["command", "pause"] * 3


async def test_a_command_that_nobody_took_is_taken_back() -> None:
    cluster = Cluster(takes=False)
    assert await cluster.run() == "not done within 0.2 s: a has not taken the command"
    assert cluster.waiting == {}


async def test_a_command_of_somebody_else_is_waited_for() -> None:
    cluster = Cluster(takes=False)
    cluster.waiting["a"] = other = replace(COMMAND, revision=4)
    assert await cluster.run() == "not done within 0.2 s: no node could be told"
    assert cluster.commands == []
    assert cluster.waiting["a"] == other


async def test_what_a_node_did_not_do_is_in_its_log() -> None:
    assert await Cluster().run() == (
        "not done within 0.2 s: a was told to transfer; its log may say why that was not possible"
    )


async def test_who_took_a_drain_and_no_more_is_said_to_go_on_with_it() -> None:
    cluster, drains = Cluster(), "a drains until it starts again: repeat this, or restart a"
    cluster.verb = Verb.DRAIN
    assert await cluster.run() == f"not done within 0.2 s: a was told to drain; {drains}"
    cluster.commands.clear()
    cluster.then = Verb.REPAIR
    assert await cluster.run() == f"not done within 0.2 s: a has not taken the command; {drains}"
    cluster = Cluster(takes=False)
    cluster.verb = Verb.DRAIN
    assert await cluster.run() == "not done within 0.2 s: a has not taken the command"
