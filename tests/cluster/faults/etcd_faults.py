"""Faults of a managed etcd: members killed, stopped and compacted, leases revoked, all emptied, or put back."""

import asyncio
import os
import shutil
import signal
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from cluster.brokers.mirrored_brokers import NODES, MirroredBrokers
from cluster.faults.random_faults import Kind, Rest

from routelog.mirror_cluster.coordination.coordinator import (
    CoordinatorRefused,
    CoordinatorUnavailable,
)
from routelog.mirror_cluster.coordination.etcd_gateway import EtcdGateway, encoded

_ALL_KEYS = {"key": encoded(b"/routelog/"), "range_end": encoded(b"/routelog0")}


class EtcdFaults:
    """See the module.

    Args:
        until_in_sync: nothing is wrong, and all nodes have everything.
    """

    def __init__(self, cluster: MirroredBrokers, rest: Rest, until_in_sync: Rest) -> None:
        self._cluster = cluster
        self._rest = rest
        self._until_in_sync = until_in_sync

    def kinds(self) -> Sequence[Kind]:
        """Weight of each, and what strikes a node: all of them heal by themselves."""
        return [
            (2, self.kill_etcd),
            (1, self.kill_all_etcd),
            (1, self.stop_all_etcd),
            (1, self.compact_etcd),
            (1, self.revoke_leases),
        ]

    def losses(self) -> Sequence[Kind]:
        """The same, of what etcd itself forgets: an operator has to say what counts."""
        return [(1, self.empty_etcd), (1, self.restore_etcd)]

    async def kill_etcd(self, name: str) -> None:
        """The member of one node."""
        self._signal(signal.SIGKILL, name)

    async def kill_all_etcd(self, name: str) -> None:
        """All members."""
        self._signal(signal.SIGKILL, *NODES)

    async def stop_all_etcd(self, name: str) -> None:
        """All members, for a while."""
        stopped = self._signal(signal.SIGSTOP, *NODES)
        await self._rest()
        for child in stopped:  # its broker may have ended meanwhile
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGCONT)

    async def compact_etcd(self, name: str) -> None:
        """What is there now has no history any more."""

        async def compact(gateway: EtcdGateway) -> None:
            told = await gateway.request("kv/range", {"key": encoded(b"/")})
            revision = msgspec.json.decode(told)["header"]["revision"]
            await gateway.request("kv/compaction", {"revision": revision, "physical": True})

        await self._ask(compact)

    async def revoke_leases(self, name: str) -> None:
        """Of all nodes."""

        async def revoke(gateway: EtcdGateway) -> None:
            told = await gateway.request("lease/leases", {})
            for lease in msgspec.json.decode(told).get("leases", ()):
                await gateway.request("lease/revoke", {"ID": lease["ID"]})

        await self._ask(revoke)

    async def empty_etcd(self, name: str) -> None:
        """All keys are gone, while all nodes run."""

        async def empty(gateway: EtcdGateway) -> None:
            await gateway.request("kv/deleterange", _ALL_KEYS)

        await self._until_in_sync()
        await self._ask(empty)
        await self._until_led()

    async def restore_etcd(self, name: str) -> None:
        """All members are what they were a while ago."""
        await self._until_in_sync()
        stopped = self._signal(signal.SIGSTOP, *NODES)
        for each in NODES:
            await asyncio.to_thread(_copy, self._folder(each), self._kept(each))
        for child in stopped:
            os.kill(child, signal.SIGCONT)
        await self._rest()
        for broker in self._cluster.brokers.values():  # or a member starts again in between
            broker.signal(signal.SIGSTOP)
        self._signal(signal.SIGKILL, *NODES)
        for each in NODES:
            await asyncio.to_thread(_copy, self._kept(each), self._folder(each))
        for broker in self._cluster.brokers.values():
            broker.signal(signal.SIGCONT)
        await self._until_led()

    async def _until_led(self) -> None:
        await self._rest()
        await asyncio.to_thread(self._cluster.until_led)

    def _folder(self, name: str) -> Path:
        return self._cluster.brokers[name].data_dir / "etcd"

    def _kept(self, name: str) -> Path:
        return self._folder(name).parent.with_suffix(".etcd")

    def _signal(self, number: signal.Signals, *names: str) -> list[int]:
        children = [child for name in names for child in self._cluster.brokers[name].children]
        for child in children:
            with suppress(ProcessLookupError):
                os.kill(child, number)
        return children

    async def _ask(self, work: Callable[[EtcdGateway], Awaitable[None]]) -> None:
        with suppress(CoordinatorUnavailable, CoordinatorRefused):  # in vain: none answers
            async with self._cluster.etcd() as gateway:
                await work(gateway)


def _copy(source: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)
