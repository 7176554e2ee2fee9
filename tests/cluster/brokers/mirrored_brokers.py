"""Three brokers of one cluster, on one machine, each with an etcd of its own."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from cluster.brokers.hurt_system import HurtSystem, hurting_library
from cluster.node_networks import NodeNetworks
from support.broker_process import ROOT, BrokerProcess
from support.ports import free_ports
from support.waiting import WAIT_SECONDS

from routelog.broker.node.configuration import load_configuration
from routelog.mirror_cluster.commands.cluster_status import alive_in_sync, cluster_status
from routelog.mirror_cluster.coordination.coordinator import (
    CoordinatorRefused,
    CoordinatorUnavailable,
)
from routelog.mirror_cluster.coordination.etcd_gateway import EtcdEndpoints, EtcdGateway
from routelog.mirror_cluster.node.cluster_options import (
    ClusterOptions,
    cluster_options,
    open_coordinator,
)

NODES = ("a", "b", "c")
SPARES = ("d", "e")  # that may join
# What nodes that refuse an etcd tell their operator to do
ADVICE = re.compile(r"`routelog cluster (init --from \S+@\S+)`")


class MirroredBrokers:
    """The three processes; each has its name, and a data directory below `folder`.

    Args:
        networks: of the nodes; None: they have none of their own.
        host: of all nodes, where they are in no networks of their own.
        own: the environment of each node beside that of all; that of `a` is the command line's, too.
        ports: of the nodes whose data are there already; their etcd knows them. Else they get new ones.
        is_hurt: their systems can be hurt, and what they tell an operator to do is done as soon as it is seen.

    Attributes:
        brokers, systems, ports: by short name.
    """

    def __init__(
        self,
        folder: Path,
        environment: dict[str, str] | None = None,
        networks: NodeNetworks | None = None,
        *,
        is_hurt: bool = False,
        own: Mapping[str, dict[str, str]] | None = None,
        ports: Mapping[str, int] | None = None,
        host: str = "127.0.0.1",
    ) -> None:
        self.networks = networks
        self._folder = folder
        self._is_hurt = is_hurt
        hosts = dict.fromkeys(NODES, host) if networks is None else networks.addresses
        if networks is not None:
            ports = dict.fromkeys(NODES, 25_672)
        elif ports is None:
            # Of each the node's own, two of its etcd, and the clients'.
            all_ports = free_ports(len(NODES) + len(SPARES), 4)
            self._spare_ports = dict(zip(SPARES, all_ports[len(NODES) :], strict=True))
            ports = dict(zip(NODES, all_ports, strict=False))
        self.ports = ports
        self.addresses = {f"{name}@test": f"{hosts[name]}:{port}" for name, port in ports.items()}
        self.environment = {
            "ROUTELOG_CLUSTER_NODES": self._listed(),
            "ROUTELOG_CLUSTER_ETCD": "managed",
            "ROUTELOG_CLUSTER_SECRET": "a secret of these tests",
            "ROUTELOG_LOOPBACK_USERS": "",
            **(environment or {}),
        }
        own = own or {}
        self._own = own.get("a", {})
        self.systems: dict[str, HurtSystem] = {}
        if is_hurt:
            library = hurting_library(folder)
            self.systems = {
                name: HurtSystem(library, folder / f"{name}.wrong", folder / name) for name in NODES
            }
        self.brokers = {
            name: BrokerProcess(
                folder / name,
                {
                    **self.environment,
                    "ROUTELOG_NODE_NAME": f"{name}@test",
                    **(self.systems[name].environment if is_hurt else {}),
                    **own.get(name, {}),
                },
                host=hosts[name],
                within=() if networks is None else networks.within(name),
            )
            for name in NODES
        }
        for name, broker in self.brokers.items():
            broker.port = ports[name] + 3

    def _listed(self) -> str:
        return ",".join(f"{name}={address}" for name, address in self.addresses.items())

    def add(self, name: str) -> BrokerProcess:
        """One of SPARES, which is not started: it is in its own configuration, and in that of commands."""
        port = self._spare_ports[name]
        self.addresses[f"{name}@test"] = f"127.0.0.1:{port}"
        self.environment["ROUTELOG_CLUSTER_NODES"] = self._listed()
        broker = BrokerProcess(
            self._folder / name, self.environment | {"ROUTELOG_NODE_NAME": f"{name}@test"}
        )
        broker.port = port + 3
        self.brokers[name] = broker
        return broker

    def forget(self, name: str) -> BrokerProcess:
        """Take a node out of the configuration; returns it."""
        del self.addresses[f"{name}@test"]
        self.environment["ROUTELOG_CLUSTER_NODES"] = self._listed()
        return self.brokers.pop(name)

    def start(self) -> None:
        """Start all; they may have no leader yet."""
        for broker in self.brokers.values():
            broker.start()

    def stop(self) -> None:
        """End all at once: the last one must not lead before it ends."""
        for broker in self.brokers.values():
            broker.signal(signal.SIGKILL)
        for broker in self.brokers.values():
            broker.stop()

    def status(self) -> dict[str, Any]:
        """What `routelog cluster status` says, and who of each shard is `alive_in_sync`; empty while etcd does
        not answer.

        Without a process of its own, which is half a second of a processor: tests look often. In a thread, as
        this one may have a loop that runs.
        """
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(asyncio.run, self._read_status()).result()

    def options(self, environment: Mapping[str, str] | None = None) -> ClusterOptions:
        """Those of commands, with another environment beside theirs."""
        keys = load_configuration(environment=self._of_commands(environment), options={})
        options = cluster_options(keys, next(iter(self.addresses)))
        assert options is not None
        return options

    @asynccontextmanager
    async def etcd(self) -> AsyncIterator[EtcdGateway]:
        """The managed one, as its nodes reach it."""
        options = self.options()
        endpoints = EtcdEndpoints(options.etcd, tls=options.etcd_tls)
        async with aclosing(EtcdGateway(endpoints)) as gateway:
            yield gateway

    async def _read_status(self) -> dict[str, Any]:
        options = self.options()
        coordinator = open_coordinator(options)
        try:
            view = await coordinator.read()
            told = cluster_status(options, view)
            for row in told["shards"]:
                row["alive_in_sync"] = alive_in_sync(view.records[row["shard"]], view)
            return told
        except (CoordinatorUnavailable, CoordinatorRefused):
            return {}
        finally:
            await coordinator.aclose()

    def _of_commands(self, environment: Mapping[str, str] | None = None) -> dict[str, str]:
        node = {"ROUTELOG_NODE_NAME": next(iter(self.addresses))}
        return {**node, **self.environment, **self._own, **(environment or {})}

    def ask(
        self, *command: str, environment: Mapping[str, str] | None = None
    ) -> tuple[dict[str, Any], int]:
        """What `routelog cluster COMMAND --json` says, and its exit code; nothing without an etcd.

        It waits longer than the command does by default: a node that starts again has its time.
        """
        if command[0] not in ("status", "verify") and "--timeout" not in command:
            command = (*command, "--timeout", f"{3 * WAIT_SECONDS:g}")
        asked = self.command("cluster", *command, "--json", environment=environment)
        return json.loads(asked.stdout) if asked.stdout else {}, asked.returncode

    def command(
        self, *command: str, environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run `routelog COMMAND`, with the configuration of the nodes."""
        return subprocess.run(
            [sys.executable, "-m", "routelog", *command],
            cwd=ROOT,
            env={
                "PATH": "/usr/bin:/bin",
                "PYTHONPATH": str(ROOT / "src"),
                **self._of_commands(environment),
            },
            capture_output=True,
            text=True,
            check=False,
        )

    def leader(self) -> BrokerProcess:
        """The broker that leads, as soon as one does."""
        return self.brokers[self.until_led()["leader"].partition("@")[0]]

    def until_told(self, note: str) -> None:
        """Wait until the summary of the status has this: a node that is ready has its lease a moment later."""
        deadline = time.monotonic() + WAIT_SECONDS
        while note not in (told := self.status()).get("summary", ""):
            assert time.monotonic() < deadline, (told, self.log_text())
            time.sleep(0.1)

    def until_led(self, *, in_sync: int = 1, without: str = "") -> dict[str, Any]:
        """Wait until a broker that runs leads, with so many copies; returns the shard's row of the status.

        A node that has died, or has lost its disk, is in the record's set for a moment longer: only those count
        that are alive, with the disks that are meant.

        Args:
            without: a node that must not be in the record's set any more.
        """
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            told = self.status()
            for shard in told.get("shards", ()):
                leader = self.brokers.get(shard["leader"].partition("@")[0])
                runs = (
                    leader is not None and leader.alive
                )  # one that was killed has its lease for a while
                is_there = shard["led"] and runs and len(shard["alive_in_sync"]) >= in_sync
                if is_there and without not in shard["in_sync"]:
                    return dict(shard)
            if self._is_hurt and (advice := ADVICE.search(told.get("summary", ""))):
                self.ask(*advice[1].split())
            assert time.monotonic() < deadline, (told, self.log_text())
            time.sleep(0.1)

    def log_text(self) -> str:
        """Of all brokers."""
        return "\n".join(f"-- {name}\n{each.log_text()}" for name, each in self.brokers.items())


@contextmanager
def mirrored_brokers(
    folder: Path, *, is_hurt: bool = False, **environment: str
) -> Iterator[MirroredBrokers]:
    """Three brokers that run."""
    cluster = MirroredBrokers(folder, environment, is_hurt=is_hurt)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
