"""Faults of whole brokers, their disks, clocks and etcd, and the network between them, while clients work."""

import asyncio
import os
import shutil
import signal
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from broker_process import BrokerFailed, BrokerProcess
from cluster.brokers.mirrored_brokers import NODES, MirroredBrokers
from cluster.brokers.node_networks import CLIENTS, NodeNetworks
from cluster.faults.random_faults import Kind, RandomFaults

from routelog.log_backend.journal.journal_block import BLOCK_HEADER_BYTES, MAGIC
from routelog.mirror_cluster.coordination.coordinator import (
    CoordinatorRefused,
    CoordinatorUnavailable,
)
from routelog.mirror_cluster.coordination.etcd_gateway import EtcdGateway, encoded

DOWN_SECONDS_MAX = 3.0
START_SECONDS_MAX = 30.0  # of tries, on a disk that failed a moment ago
LEFT_SECONDS_MAX = 20.0  # until the others have left a node out that is down
CLOCK_SECONDS_MAX = 20  # what is delayed or expires by it must come within a run
SLOW_SECONDS_MAX = 0.5  # of a sync: half of what a lease leaves
PAGE_BYTES = 4_096
LENGTH_AT = 40  # in a block of the journal
_SECOND = 10**9
GROUPS = ("process", "network", "disk", "clock", "etcd")


class BrokerFaults(RandomFaults):
    """See the module.

    Args:
        groups: the kinds to draw from, see `kinds`; `network` only where the nodes have networks.
        wipes: wipe data directories, too.
    """

    def __init__(
        self,
        cluster: MirroredBrokers,
        seed: int,
        *,
        groups: Sequence[str],
        wipes: bool,
    ) -> None:
        super().__init__(seed, NODES)
        self._cluster = cluster
        self._groups = groups
        self._wipes = wipes
        self._starting: dict[str, asyncio.Task[None]] = {}
        self._may_end: set[str] = set()  # nodes whose disk fails, or did when they looked

    def kinds(self) -> Sequence[Kind]:
        """See `RandomFaults`."""
        groups: dict[str, list[Kind]] = {
            "process": [
                (4, self._kill),
                (3, self._stop),
                (1, self._kill_all),
                (3, self._hand_over),
                (2 * self._wipes, self._wipe),
            ],
            "network": [
                (3, self._cut_off),
                (2, self._cut_off_from_one),
                (2, self._deaf),
                (2, self._mute),
            ],
            "disk": [
                (2, self._full_disk),
                (2, self._slow_disk),
                (3, self._hanging_disk),
                (3, self._failing_disk),
                (2, self._flipped_bits),
            ],
            "clock": [(2, self._clock_jumps)],
            "etcd": [
                (2, self._kill_etcd),
                (1, self._kill_all_etcd),
                (1, self._stop_all_etcd),
                (1, self._compact_etcd),
                (1, self._revoke_leases),
            ],
        }
        return [kind for group in self._groups for kind in groups[group]]

    async def leader(self) -> str:
        """See `RandomFaults`."""
        status = await asyncio.to_thread(self._cluster.status)
        for shard in status.get("shards", ()):
            return str(shard["leader"]).partition("@")[0]
        return ""

    async def look(self) -> None:
        """No node ends by itself, but where its disk fails; then a service manager starts it again."""
        for name, broker in self._cluster.brokers.items():
            if broker.alive or not self._is_started(name):
                continue
            assert name in self._may_end, f"{name} ended by itself: {broker.log_text()[-2_000:]}"
            self._end(name, lambda broker: None)

    async def heal(self) -> None:
        """Nothing is wrong any more; returns when all nodes run."""
        for system in self._cluster.systems.values():
            system.heal()
        await asyncio.sleep(1)  # one may be about to end because of what was wrong
        await self.look()
        await asyncio.gather(*self._starting.values())

    # -- processes

    async def _kill(self, name: str) -> None:
        self._end(name, lambda broker: broker.kill())

    async def _hand_over(self, name: str) -> None:
        self._end(name, lambda broker: broker.terminate())

    async def _kill_all(self, name: str) -> None:
        for each in NODES:
            self._end(each, lambda broker: broker.kill())

    async def _wipe(self, name: str) -> None:
        await self._until_all_in_sync()

        def wipe(broker: BrokerProcess) -> None:
            broker.kill()
            shutil.rmtree(broker.data_dir)

        self._end(name, wipe)

    async def _until_all_in_sync(self) -> None:
        # One disk at a time, and all others have everything: a second loss would be one of confirmed messages.
        await self.heal()
        await asyncio.to_thread(self._cluster.until_led, in_sync=len(NODES))

    def _is_started(self, name: str) -> bool:
        before = self._starting.get(name)
        return before is None or before.done()

    def _end(self, name: str, end: Callable[[BrokerProcess], object]) -> None:
        """End a node that runs, and start it again after a while, as a service manager does."""
        if self._is_started(name):
            seconds = self.randomness.uniform(0.2, DOWN_SECONDS_MAX)
            self._starting[name] = asyncio.create_task(self._again(name, end, seconds))

    async def _again(
        self, name: str, end: Callable[[BrokerProcess], object], seconds: float
    ) -> None:
        broker = self._cluster.brokers[name]
        broker.signal(signal.SIGCONT)
        await asyncio.to_thread(end, broker)
        await asyncio.sleep(seconds)
        deadline = time.monotonic() + START_SECONDS_MAX
        while True:
            try:
                await asyncio.to_thread(broker.start)
            except BrokerFailed:
                if name not in self._may_end or time.monotonic() > deadline:
                    raise
                await asyncio.sleep(seconds)
            else:
                return

    async def _stop(self, name: str) -> None:
        broker = self._cluster.brokers[name]
        broker.signal(signal.SIGSTOP)
        await self.last()
        broker.signal(signal.SIGCONT)

    # -- the network

    @property
    def _networks(self) -> NodeNetworks:
        assert self._cluster.networks is not None
        return self._cluster.networks

    async def _cut_off(self, name: str) -> None:
        self._networks.cut_off(name)
        await self.last()
        self._networks.heal()

    async def _cut_off_from_one(self, name: str) -> None:
        other = self.randomness.choice([each for each in NODES if each != name])
        self._networks.cut_off(name, other)
        await self.last()
        self._networks.heal()

    async def _deaf(self, name: str) -> None:
        for other in self._others(name):
            self._networks.lose(other, name)
        await self.last()
        self._networks.heal()

    async def _mute(self, name: str) -> None:
        for other in self._others(name):
            self._networks.lose(name, other)
        await self.last()
        self._networks.heal()

    def _others(self, name: str) -> list[str]:
        return [each for each in (*NODES, CLIENTS) if each != name]

    # -- disks and clocks

    async def _full_disk(self, name: str) -> None:
        self._may_end.add(name)  # one that starts meanwhile
        await self._disk(name, full=1)

    async def _slow_disk(self, name: str) -> None:
        await self._disk(name, slow=round(self.randomness.uniform(0.02, SLOW_SECONDS_MAX) * 1e6))

    async def _hanging_disk(self, name: str) -> None:
        await self._disk(name, hanging=1)

    async def _failing_disk(self, name: str) -> None:
        self._may_end.add(name)
        await self._disk(name, failing=1, unreadable=self.randomness.randrange(2))

    async def _disk(self, name: str, **wrong: int) -> None:
        system = self._cluster.systems[name]
        system.hurt(**wrong)
        await self.last()
        system.hurt(**dict.fromkeys(wrong, 0))

    async def _clock_jumps(self, name: str) -> None:
        ahead = self.randomness.randint(-CLOCK_SECONDS_MAX, CLOCK_SECONDS_MAX)
        self._cluster.systems[name].hurt(clock=ahead * _SECOND)
        await self.last()  # and longer: until it jumps again

    async def _flipped_bits(self, name: str) -> None:
        await self._until_all_in_sync()
        self._end(name, self._flip)

    def _flip(self, broker: BrokerProcess) -> None:
        # In sync, it could lead with what it has: a flip in its last block looks like a torn write.
        broker.kill()
        deadline = time.monotonic() + LEFT_SECONDS_MAX
        while self._is_in_sync(broker):
            assert time.monotonic() < deadline, self._cluster.log_text()[-2_000:]
            time.sleep(0.1)
        files = [path for path in sorted(broker.data_dir.glob("journal/*.journal")) if _pages(path)]
        if files:
            path, at = self.randomness.choice(files), self.randomness.random()
            self.struck[-1] += f" {flip_bit(path, at)}"

    def _is_in_sync(self, broker: BrokerProcess) -> bool:
        shards = self._cluster.status().get("shards", ())
        return not shards or f"{broker.data_dir.name}@test" in shards[0]["in_sync"]

    # -- etcd

    async def _kill_etcd(self, name: str) -> None:
        self._signal_etcd(signal.SIGKILL, name)

    async def _kill_all_etcd(self, name: str) -> None:
        self._signal_etcd(signal.SIGKILL, *NODES)

    async def _stop_all_etcd(self, name: str) -> None:
        stopped = self._signal_etcd(signal.SIGSTOP, *NODES)
        await self.last()
        for child in stopped:  # its broker may have ended meanwhile
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGCONT)

    def _signal_etcd(self, number: signal.Signals, *names: str) -> list[int]:
        children = [child for name in names for child in self._cluster.brokers[name].children]
        for child in children:
            with suppress(ProcessLookupError):
                os.kill(child, number)
        return children

    async def _compact_etcd(self, name: str) -> None:
        await self._ask_etcd(self._compact)

    async def _compact(self, gateway: EtcdGateway) -> None:
        told = await gateway.request("kv/range", {"key": encoded(b"/")})
        revision = msgspec.json.decode(told)["header"]["revision"]
        await gateway.request("kv/compaction", {"revision": revision, "physical": True})

    async def _revoke_leases(self, name: str) -> None:
        await self._ask_etcd(self._revoke)

    async def _revoke(self, gateway: EtcdGateway) -> None:
        told = await gateway.request("lease/leases", {})
        for lease in msgspec.json.decode(told).get("leases", ()):
            await gateway.request("lease/revoke", {"ID": lease["ID"]})

    async def _ask_etcd(self, work: Callable[[EtcdGateway], Awaitable[None]]) -> None:
        try:
            async with self._cluster.etcd() as gateway:
                await work(gateway)
        except (CoordinatorUnavailable, CoordinatorRefused):
            self.struck[-1] += " in vain"


def flip_bit(path: Path, at: float = 0.0) -> str:
    """Flip one bit of what a file holds; its name and the place are returned.

    Args:
        at: 0 to 1: where, of its pages that are not full of zeros, or blocks without entries.
    """
    pages, content = _pages(path), path.read_bytes()
    place = pages[int(at * len(pages))] + BLOCK_HEADER_BYTES
    with path.open("r+b") as file:
        file.seek(place)
        file.write(bytes([content[place] ^ 1]))
    return f"{path.name}:{place}"


def _pages(path: Path) -> list[int]:
    content = path.read_bytes()
    places = range(0, len(content), PAGE_BYTES)
    return [each for each in places if _holds_something(content[each : each + PAGE_BYTES])]


def _holds_something(page: bytes) -> bool:
    if not page.startswith(MAGIC):
        return any(page)
    return int.from_bytes(page[LENGTH_AT : LENGTH_AT + 4], "little") > BLOCK_HEADER_BYTES
