"""What operators do while other faults strike: transfers, nodes drained, taken out and back, backups."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from random import Random

from cluster.brokers.mirrored_brokers import NODES, MirroredBrokers
from cluster.brokers.queue_load import QueueLoad
from cluster.faults.node_keeper import NodeKeeper
from cluster.faults.random_faults import Kind
from support.waiting import WAIT_SECONDS

OUT_SECONDS_MAX = 6.0


class OperatorFaults:
    """See the module. Commands go on while the next fault strikes.

    Args:
        note: called when a command begins or ends: another node may lead.

    Attributes:
        backups: targets of those that were done, with what was confirmed before each began.
    """

    def __init__(
        self,
        cluster: MirroredBrokers,
        keeper: NodeKeeper,
        load: QueueLoad,
        folder: Path,
        randomness: Random,
        note: Callable[[], None],
    ) -> None:
        self.backups: dict[Path, set[int]] = {}
        self._cluster = cluster
        self._keeper = keeper
        self._load = load
        self._folder = folder
        self._randomness = randomness
        self._note = note
        self._work: list[asyncio.Task[None]] = []

    def kinds(self) -> Sequence[Kind]:
        """Weight of each, and what strikes a node."""
        return [
            (3, self.transfer),
            (2, self.drain),
            (2, self.leave_and_join),
            (1, self.back_up),
        ]

    async def transfer(self, name: str) -> None:
        """The node is to lead."""
        self._do(self._ask("transfer", "--to", f"{name}@test"))

    async def drain(self, name: str) -> None:
        """The node is made ready to be stopped, and stopped."""

        async def drain() -> None:
            await self._ask("drain", f"{name}@test")
            self._keeper.end(name, lambda broker: broker.terminate())

        self._do(drain())

    async def leave_and_join(self, name: str) -> None:
        """The node has no copy any more, and takes one again."""

        async def leave_and_join() -> None:
            await self._ask("leave", f"{name}@test")
            await asyncio.sleep(self._randomness.uniform(0, OUT_SECONDS_MAX))
            await self._ask("join", f"{name}@test")

        self._do(leave_and_join())

    async def back_up(self, name: str) -> None:
        """A backup of the node that leads, under load."""
        self._do(self._back_up(self._folder / f"backup-{len(self._work)}"))

    async def until_done(self) -> None:
        """Wait for all commands; nodes that are out join again."""
        await asyncio.gather(*self._work)
        deadline = time.monotonic() + WAIT_SECONDS
        while out := await self._out():
            assert time.monotonic() < deadline, f"{out} do not join: {self._cluster.log_text()}"
            await self._ask("join", out[0])

    async def _out(self) -> list[str]:
        shard = await asyncio.to_thread(self._cluster.until_led)
        return [f"{name}@test" for name in NODES if f"{name}@test" not in shard["replicas"]]

    async def _back_up(self, target: Path) -> None:
        confirmed = self._load.confirmed
        leader = await asyncio.to_thread(self._cluster.leader)
        done = await asyncio.to_thread(
            self._cluster.command,
            *("backup", "create", str(target), "--data-dir", str(leader.data_dir)),
        )
        if done.returncode == 0:  # else that node leads no longer
            self.backups[target] = confirmed

    def _do(self, work: Awaitable[None]) -> None:
        async def do() -> None:
            await work

        self._work.append(asyncio.create_task(do()))

    async def _ask(self, *command: str) -> None:
        self._note()
        await asyncio.to_thread(self._cluster.ask, *command, "--timeout", "20")
        self._note()
