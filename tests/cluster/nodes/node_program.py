"""A process with one node: the product's `ClusterNode` over journals of this test, and a door for its clients.

    python -m cluster.nodes.node_program '{"node": "a", "directory": ..., "port": ..., "door": ..., "etcd": []}'

A client sends lines and reads lines, JSON both: `{"shard": 0, "submit": "text"}` is answered when the text is
committed, `{"status": true}` and `{"chain": 0}` at once.
"""

import asyncio
import logging
import os
import sys
from pathlib import Path
from typing import Any

import msgspec
import uvloop
from cluster.nodes.file_storage import FileStorage
from cluster.nodes.journal_shard import JournalShard
from support.node_sockets import node_sockets

from routelog.log_backend import SystemClock, SystemDisk
from routelog.mirror_cluster import ReplicaSettings
from routelog.mirror_cluster.coordination.etcd_coordinator import EtcdCoordinator
from routelog.mirror_cluster.coordination.etcd_gateway import EtcdEndpoints, EtcdGateway
from routelog.mirror_cluster.links.node_links import LinkSecurity
from routelog.mirror_cluster.node.cluster_node import ClusterNode, NodeSettings
from routelog.mirror_cluster.node.incarnation import read_incarnation
from routelog.mirror_cluster.node.lease_keeper import DiskProbe
from routelog.mirror_cluster.replica.events import Drain, Transfer

PREFIX = "/routelog/test"
EXIT_STATUS = 3  # of a node that is to be started again


class Options(msgspec.Struct):
    """What the program is told."""

    node: str
    directory: str
    port: int
    door: int
    etcd: list[str]
    shards: int = 1
    journal: bool = False  # the broker's, instead of that of these tests
    creates: list[str] = []  # replicas of the shards, if this node is to make their records
    lease_seconds: float = 2.0
    replica: dict[str, Any] = {}


class NodeProgram:
    """See the module; it owns the shards."""

    def __init__(self, options: Options) -> None:
        self.options = options
        directory = Path(options.directory)
        directory.mkdir(parents=True, exist_ok=True)
        endpoints = EtcdEndpoints(options.etcd)
        coordinator = EtcdCoordinator(EtcdGateway(endpoints), PREFIX, int(options.lease_seconds))
        settings = NodeSettings(
            "test",
            options.node,
            read_incarnation(directory, SystemDisk()),
            f"127.0.0.1:{options.port}",
            "127.0.0.1",
            options.port,
            LinkSecurity(b"a secret of this test"),
            options.lease_seconds,
            ReplicaSettings(**options.replica),
        )
        probe = DiskProbe(directory, SystemDisk())
        self.node = ClusterNode(
            settings, SystemClock(), coordinator, probe.sync, self, node_sockets()
        )
        self.serving: dict[int, int] = {}
        self.waiting: list[dict[int, list[asyncio.Future[int]]]] = [
            {} for _ in range(options.shards)
        ]
        self.storages = [
            self.storage(shard, directory / str(shard)) for shard in range(options.shards)
        ]
        self.stopped = asyncio.Event()

    async def run(self) -> None:
        """Until it is killed, or has drained."""
        for storage in self.storages:
            await storage.prepare()
        door = await asyncio.start_server(self.client, "127.0.0.1", self.options.door)
        await self.node.start(self.storages)
        if self.options.creates:
            for shard in range(self.options.shards):
                await self.node.begin_shard(shard, self.options.creates)
        await self.stopped.wait()
        door.close()
        await self.node.aclose()

    # -- see `ShardOwner`

    def serve(self, shard: int, epoch: int) -> None:
        self.serving[shard] = epoch
        served = Path(self.options.directory).with_suffix(".served")  # a wiped disk keeps it
        with served.open("a") as file:
            file.write(f"{shard} {epoch} {self.node.process}\n")

    def stop_serving(self, shard: int, reason: str) -> None:
        self.serving.pop(shard, None)

    def drained(self, shard: int) -> None:
        self.stopped.set()

    def end(self, reason: str) -> None:
        logging.warning("ends: %s", reason)
        os._exit(EXIT_STATUS)

    # -- shards and clients

    def storage(self, shard: int, directory: Path) -> FileStorage | JournalShard:
        """Of a shard."""
        applied = self.applied(shard)
        if self.options.journal:
            return JournalShard(shard, directory, applied, lambda error: self.end(repr(error)))
        return FileStorage(shard, directory, applied)

    def applied(self, shard: int) -> Any:
        def applied(position: int) -> None:
            waiting = self.waiting[shard]
            for each in [each for each in waiting if each <= position]:
                for done in waiting.pop(each):
                    done.set_result(each)

        return applied

    async def client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async for line in reader:
                answer = await self.answer(msgspec.json.decode(line))
                writer.write(msgspec.json.encode(answer) + b"\n")
        except ConnectionError:
            pass
        finally:
            writer.close()

    async def answer(self, asked: dict[str, Any]) -> Any:
        """What a client gets."""
        match asked:
            case {"submit": str(text), "shard": shard}:
                if shard not in self.serving:
                    return {"refused": True}
                position = self.storages[shard].append(text.encode())
                done = asyncio.get_running_loop().create_future()
                self.waiting[shard].setdefault(position, []).append(done)
                return {"confirmed": await done, "epoch": self.storages[shard].epoch}
            case {"chain": shard}:
                storage = self.storages[shard]
                return [
                    [each.mark.checksum, each.mark.epoch, storage.texts(each)]
                    for each in storage.committed.values()
                ]
            case {"transfer": shard}:
                self.node.handle(shard, Transfer())
            case {"drain": shard}:
                self.node.handle(shard, Drain())
        return self.status()

    def status(self) -> Any:
        return {
            "process": self.node.process,
            "shards": [
                {
                    "epoch": self.serving.get(shard, 0),
                    "in_sync": sorted(record.in_sync) if record else [],
                    "committed": hosted.replica.log.committed,
                    "end": hosted.replica.log.chain.end_position,
                }
                for shard, hosted in sorted(self.node.replicas.items())
                for record in [self.node.view.records.get(shard)]
            ],
        }


def main() -> None:
    """The program."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    options = msgspec.json.decode(sys.argv[1], type=Options)

    async def run() -> None:
        await NodeProgram(options).run()

    uvloop.run(run())


if __name__ == "__main__":
    main()
