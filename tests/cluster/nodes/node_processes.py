"""Three real node processes and a real etcd, clients that publish to them, and what must be true at the end."""

import asyncio
import json
import logging
import os
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from cluster.nodes.etcd_cluster import EtcdCluster, until_ready
from support.ports import free_ports

log = logging.getLogger(__name__)

NAMES = ("a", "b", "c")
TESTS = Path(__file__).resolve().parents[2]
RESTART_SECONDS = 0.2  # as a service manager does
ANSWER_SECONDS_MAX = 2.0  # of a node: one that is stopped takes connections and says nothing
CONFIRM_SECONDS_MAX = 0.5  # then a client does not know, and asks another node


class NodeProcess:
    """One node: a process after the other, on one directory."""

    def __init__(self, folder: Path, options: dict[str, Any]) -> None:
        self.name: str = options["node"]
        self.door: int = options["door"]
        self.directory = Path(options["directory"])
        self.log_file = folder / f"{self.name}.log"
        self.process: asyncio.subprocess.Process | None = None
        self._options = options
        self._keeper: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start it, and again whenever it ends."""
        await self._spawn()
        self._keeper = asyncio.create_task(self._keep())

    async def stop(self) -> None:
        """End it for good."""
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
            self._keeper = None
        if self.process is not None and self.process.returncode is None:
            self.signal(signal.SIGKILL)
            await self.process.wait()

    def signal(self, number: signal.Signals) -> None:
        """Send its process a signal."""
        assert self.process is not None
        with suppress(ProcessLookupError):
            os.kill(self.process.pid, number)

    async def wipe(self) -> None:
        """Kill it, and start it again with an empty directory."""
        await self.stop()
        shutil.rmtree(self.directory)
        await self.start()

    async def _spawn(self) -> None:
        with self.log_file.open("ab") as output:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "cluster.nodes.node_program",
                json.dumps(self._options),
                env={**os.environ, "PYTHONPATH": str(TESTS)},
                stdout=output,
                stderr=output,
            )
        self._options = {**self._options, "creates": []}

    async def _keep(self) -> None:
        while True:
            assert self.process is not None
            await self.process.wait()
            await asyncio.sleep(RESTART_SECONDS)
            await self._spawn()

    async def ask(self, **asked: object) -> Any:
        """Its answer to one question; None when it gives none in time."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                reader, writer = await asyncio.open_connection("127.0.0.1", self.door, limit=2**26)
                try:
                    writer.write(json.dumps(asked).encode() + b"\n")
                    return json.loads(await reader.readline())
                finally:
                    writer.close()
        except (OSError, TimeoutError, ValueError):
            return None


class NodeCluster:
    """All processes, and the clients.

    Attributes:
        confirmed: for each shard the texts that were confirmed.
        firsts: when a text was confirmed first, by shard and epoch.
    """

    def __init__(self, folder: Path, etcd: EtcdCluster, shards: int, **options: object) -> None:
        self.folder = folder
        self.etcd = etcd
        self.shards = shards
        self.confirmed: list[set[str]] = [set() for _ in range(shards)]
        self.firsts: dict[tuple[int, int], float] = {}
        self._texts = 0
        self._clients: list[asyncio.Task[None]] = []
        ports = free_ports(2 * len(NAMES))
        self.nodes = {
            name: NodeProcess(
                folder,
                {
                    "node": name,
                    "directory": str(folder / name),
                    "port": ports[2 * at],
                    "door": ports[2 * at + 1],
                    "etcd": etcd.urls,
                    "shards": shards,
                    "creates": NAMES if name == "a" else [],
                    **options,
                },
            )
            for at, name in enumerate(NAMES)
        }

    async def start(self) -> None:
        """All nodes; returns when all are in sync."""
        for node in self.nodes.values():
            await node.start()
        await self.until_well()

    async def stop(self) -> None:
        """End clients and nodes."""
        await self.stop_clients()
        for node in self.nodes.values():
            node.signal(signal.SIGCONT)
            await node.stop()

    # -- what the nodes say

    async def statuses(self) -> dict[str, Any]:
        """Of all that answer."""
        answers = await asyncio.gather(*(node.ask(status=True) for node in self.nodes.values()))
        return {name: each for name, each in zip(NAMES, answers, strict=True) if each is not None}

    async def leader(self, shard: int = 0) -> NodeProcess:
        """Of a shard: of those that say that they serve, the one of the newest epoch."""
        async with asyncio.timeout(30):
            while True:
                statuses = await self.statuses()
                serving = [
                    (each["shards"][shard]["epoch"], name) for name, each in statuses.items()
                ]
                epoch, name = max(serving, default=(0, ""))
                if epoch:
                    return self.nodes[name]
                await asyncio.sleep(0.05)

    async def until_well(self, seconds: float = 30) -> None:
        """Wait until all nodes answer, and each shard is served and in sync on all."""
        async with asyncio.timeout(seconds):
            while not self._is_well(await self.statuses()):  # noqa: ASYNC110
                await asyncio.sleep(0.1)

    def _is_well(self, statuses: dict[str, Any]) -> bool:
        if len(statuses) < len(NAMES):
            return False
        for shard in range(self.shards):
            told = [each["shards"][shard] for each in statuses.values()]
            if sum(each["epoch"] > 0 for each in told) != 1:
                return False
            if any(each["in_sync"] != list(NAMES) for each in told):
                return False
        return True

    async def until_equal(self, seconds: float = 30) -> list[list[list[Any]]]:
        """Wait until all nodes have committed the same; the chains, by shard."""
        async with asyncio.timeout(seconds):
            while True:
                chains = [await self._chains(shard) for shard in range(self.shards)]
                equal = all(each[0] and each[0] == each[1] == each[2] for each in chains)
                if equal and self._is_well(await self.statuses()):
                    return [each[0] for each in chains]
                await asyncio.sleep(0.2)

    async def _chains(self, shard: int) -> list[Any]:
        return await asyncio.gather(*(node.ask(chain=shard) for node in self.nodes.values()))

    # -- clients

    def publish(self, clients: int = 4) -> None:
        """Begin to publish to each shard, so many at a time."""
        for shard in range(self.shards):
            for _ in range(clients):
                self._clients.append(asyncio.create_task(self._publish(shard)))

    async def stop_clients(self) -> None:
        """Publish no more."""
        for client in self._clients:
            client.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)
        self._clients.clear()

    async def _publish(self, shard: int) -> None:
        at = 0
        while True:
            at = (at + 1) % len(NAMES)
            with suppress(OSError, TimeoutError, ValueError):
                await self._publish_to(self.nodes[NAMES[at]], shard)
            await asyncio.sleep(0.02)

    async def _publish_to(self, node: NodeProcess, shard: int) -> None:
        """Publish until the node takes no more, or says nothing."""
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            reader, writer = await asyncio.open_connection("127.0.0.1", node.door)
        try:
            while True:
                self._texts += 1
                text = f"{shard}-{self._texts}"
                writer.write(json.dumps({"shard": shard, "submit": text}).encode() + b"\n")
                async with asyncio.timeout(CONFIRM_SECONDS_MAX):
                    answer = json.loads(await reader.readline())
                if "confirmed" not in answer:
                    return
                self.confirmed[shard].add(text)
                self.firsts.setdefault((shard, answer["epoch"]), time.monotonic())
        finally:
            writer.close()

    def epoch(self, shard: int = 0) -> int:
        """The newest in which a text was confirmed; 0 is none."""
        return max((epoch for each, epoch in self.firsts if each == shard), default=0)

    async def until_confirmed(self, after: int, shard: int = 0, seconds: float = 30) -> float:
        """Wait for a confirm of a later epoch; when it came."""
        async with asyncio.timeout(seconds):
            while self.epoch(shard) <= after:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        return self.firsts[shard, self.epoch(shard)]

    # -- what must be true

    async def check(self) -> None:
        """Nothing that was confirmed is lost or doubled, all have the same, and one led each epoch."""
        await self.stop_clients()
        chains = await self.until_equal()
        for shard, chain in enumerate(chains):
            counts = Counter(text for _, _, texts in chain for text in texts)
            lost = self.confirmed[shard] - counts.keys()
            assert not lost, f"shard {shard}: {len(lost)} lost, such as {sorted(lost)[:5]}"
            assert max(counts.values()) == 1, "a text is there twice"
            epochs = [epoch for _, epoch, _ in chain]
            assert epochs == sorted(epochs)
        leaders: dict[tuple[str, str], set[str]] = {}
        for name in NAMES:
            file = self.folder / f"{name}.served"
            for line in file.read_text().splitlines() if file.exists() else []:
                shard_text, epoch_text, process = line.split()
                leaders.setdefault((shard_text, epoch_text), set()).add(process)
        twice = {key: each for key, each in leaders.items() if len(each) > 1}
        assert not twice, f"two processes served one epoch: {twice}"


@asynccontextmanager
async def node_cluster(
    folder: Path, shards: int = 1, members: int = 1, **options: object
) -> AsyncIterator[NodeCluster]:
    """Nodes that are in sync, over an etcd of so many members."""
    etcd = EtcdCluster(folder / "etcd", members)
    await etcd.start()
    cluster = NodeCluster(folder, etcd, shards, **options)
    try:
        coordinator = etcd.coordinator()
        await until_ready(coordinator)
        await coordinator.aclose()
        await cluster.start()
        yield cluster
    finally:
        await cluster.stop()
        await etcd.stop()
