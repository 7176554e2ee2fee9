"""A real etcd of one or three members on free ports, whose processes can be hurt."""

import asyncio
import os
import signal
from pathlib import Path

from support.ports import free_ports

from routelog.mirror_cluster.coordination.coordinator import CoordinatorUnavailable
from routelog.mirror_cluster.coordination.etcd_coordinator import EtcdCoordinator
from routelog.mirror_cluster.coordination.etcd_gateway import EtcdEndpoints, EtcdGateway
from routelog.mirror_cluster.coordination.managed_etcd import (
    EtcdChild,
    EtcdMember,
    check_etcd,
)
from routelog.mirror_cluster.node_tls import TlsFiles

PREFIX = "/routelog/test"
LEASE_SECONDS = 2


class EtcdCluster:
    """Members that the product's own supervisor runs."""

    def __init__(self, folder: Path, members: int, tls: TlsFiles | None = None) -> None:
        scheme = "http" if tls is None else "https"
        ports = free_ports(2 * members)
        self.urls = [f"{scheme}://127.0.0.1:{port}" for port in ports[:members]]
        peers = {
            f"n{number}": f"{scheme}://127.0.0.1:{port}"
            for number, port in enumerate(ports[members:])
        }
        self.peer_urls = list(peers.values())
        self._members = [
            EtcdMember(name, folder / name, url, "127.0.0.1", peers, "test", tls)
            for name, url in zip(peers, self.urls, strict=True)
        ]
        self.children: list[EtcdChild] = []

    async def start(self) -> None:
        """All members; returns when one of them answers is left to `until_ready`."""
        await check_etcd("etcd")
        self.children = [EtcdChild("etcd", each) for each in self._members]
        for child in self.children:
            await child.start()

    async def stop(self) -> None:
        """End all, those that are stopped, too."""
        for child in self.children:
            self.signal(child, signal.SIGCONT)
        await asyncio.gather(*(child.stop() for child in self.children))

    def signal(self, child: EtcdChild, number: signal.Signals) -> None:
        """Send a signal to the process of a member."""
        if child.pid is not None:
            os.kill(child.pid, number)

    def endpoints(self, **options: object) -> EtcdEndpoints:
        """Of all members."""
        return EtcdEndpoints(self.urls, **options)

    def coordinator(self, **options: object) -> EtcdCoordinator:
        """Of the whole cluster; close it."""
        return EtcdCoordinator(EtcdGateway(self.endpoints(**options)), PREFIX, LEASE_SECONDS)


async def until_ready(coordinator: EtcdCoordinator, seconds: float = 30) -> None:
    """Wait until etcd has elected a leader and answers."""
    async with asyncio.timeout(seconds):
        while True:
            try:
                await coordinator.read()
            except CoordinatorUnavailable:
                await asyncio.sleep(0.05)
            else:
                return
