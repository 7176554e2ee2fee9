"""Faults drawn from a seed, struck at whole brokers and the network between them while clients work."""

import asyncio
import os
import shutil
import signal
import time
from collections.abc import Awaitable, Callable
from random import Random

from broker_process import BrokerProcess
from cluster.mirrored_brokers import NODES, MirroredBrokers
from cluster.node_networks import CLIENTS, NodeNetworks

PAUSE_SECONDS_MAX = 4.0  # between two faults: some strike while the one before is being healed
FAULT_SECONDS_MAX = 6.0  # three leases
DOWN_SECONDS_MAX = 3.0


class BrokerFaults:
    """See the module.

    Attributes:
        struck: what was done, in order.
        times: when.
    """

    def __init__(
        self, cluster: MirroredBrokers, networks: NodeNetworks, seed: int, *, wipes: bool
    ) -> None:
        self.struck: list[str] = []
        self.times: list[float] = []
        self._cluster = cluster
        self._networks = networks
        self._randomness = Random(seed)
        self._starting: dict[str, asyncio.Task[None]] = {}
        self._kinds: list[tuple[int, Callable[[str], Awaitable[None]]]] = [
            (4, self._kill),
            (3, self._stop),
            (1, self._kill_all),
            (3, self._hand_over),
            (3, self._cut_off),
            (2, self._cut_off_from_one),
            (2, self._deaf),
            (2, self._mute),
            (2, self._kill_etcd),
            (2 * wipes, self._wipe),
        ]

    async def strike(self, seconds: float) -> None:
        """Let things go wrong for so long, then heal everything."""
        ends = time.monotonic() + seconds
        weights = [weight for weight, _ in self._kinds]
        while time.monotonic() < ends:
            await asyncio.sleep(self._randomness.uniform(0, PAUSE_SECONDS_MAX))
            _, kind = self._randomness.choices(self._kinds, weights)[0]
            name = await self._node()
            self.struck.append(f"{kind.__name__.strip('_')} {name}")
            self.times.append(time.monotonic())
            await kind(name)
            self.times.append(time.monotonic())
            self._check_alive()
        await asyncio.gather(*self._starting.values())

    def _check_alive(self) -> None:
        for name, broker in self._cluster.brokers.items():
            starts = self._starting.get(name)
            assert broker.alive or (starts and not starts.done()), f"{name} ended by itself"

    # -- processes

    async def _kill(self, name: str) -> None:
        self._end(name, lambda broker: broker.kill())

    async def _hand_over(self, name: str) -> None:
        self._end(name, lambda broker: broker.terminate())

    async def _kill_all(self, name: str) -> None:
        for each in NODES:
            self._end(each, lambda broker: broker.kill())

    async def _wipe(self, name: str) -> None:
        # One disk at a time, and all others have everything: a second loss would be one of confirmed messages.
        await asyncio.gather(*self._starting.values())
        await asyncio.to_thread(self._cluster.until_led, in_sync=len(NODES))

        def wipe(broker: BrokerProcess) -> None:
            broker.kill()
            shutil.rmtree(broker.data_dir)

        self._end(name, wipe)

    def _end(self, name: str, end: Callable[[BrokerProcess], object]) -> None:
        """End a node that runs, and start it again after a while, as a service manager does."""
        before = self._starting.get(name)
        if before is None or before.done():
            seconds = self._randomness.uniform(0.2, DOWN_SECONDS_MAX)
            self._starting[name] = asyncio.create_task(self._again(name, end, seconds))

    async def _again(
        self, name: str, end: Callable[[BrokerProcess], object], seconds: float
    ) -> None:
        broker = self._cluster.brokers[name]
        broker.signal(signal.SIGCONT)
        await asyncio.to_thread(end, broker)
        await asyncio.sleep(seconds)
        await asyncio.to_thread(broker.start)

    async def _stop(self, name: str) -> None:
        broker = self._cluster.brokers[name]
        broker.signal(signal.SIGSTOP)
        await self._while()
        broker.signal(signal.SIGCONT)

    async def _kill_etcd(self, name: str) -> None:
        for child in self._cluster.brokers[name].children:
            os.kill(child, signal.SIGKILL)

    # -- the network

    async def _cut_off(self, name: str) -> None:
        self._networks.cut_off(name)
        await self._while()
        self._networks.heal()

    async def _cut_off_from_one(self, name: str) -> None:
        other = self._randomness.choice([each for each in NODES if each != name])
        self._networks.cut_off(name, other)
        await self._while()
        self._networks.heal()

    async def _deaf(self, name: str) -> None:
        for other in self._others(name):
            self._networks.lose(other, name)
        await self._while()
        self._networks.heal()

    async def _mute(self, name: str) -> None:
        for other in self._others(name):
            self._networks.lose(name, other)
        await self._while()
        self._networks.heal()

    def _others(self, name: str) -> list[str]:
        return [each for each in (*NODES, CLIENTS) if each != name]

    async def _while(self) -> None:
        await asyncio.sleep(self._randomness.uniform(0.1, FAULT_SECONDS_MAX))

    async def _node(self) -> str:
        name = self._randomness.choice(NODES)
        if self._randomness.random() < 0.5:
            status = await asyncio.to_thread(self._cluster.status)
            for shard in status.get("shards", ()):
                return str(shard["leader"]).partition("@")[0]
        return name
