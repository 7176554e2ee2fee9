"""Ends nodes of a cluster, and starts them again after a while, as a service manager does."""

import asyncio
import shutil
import signal
import time
from collections.abc import Callable
from random import Random

from cluster.brokers.mirrored_brokers import MirroredBrokers
from support.broker_process import BrokerFailed, BrokerProcess

DOWN_SECONDS_MAX = 3.0
START_SECONDS_MAX = (
    60.0  # of tries, on a disk that failed a moment ago, or that an operator has to heal
)


class NodeKeeper:
    """See the module.

    Args:
        note: called when a node ends, or has started.

    Attributes:
        may_end: nodes whose disk fails, or did when they looked: they may end by themselves.
    """

    def __init__(
        self, cluster: MirroredBrokers, randomness: Random, note: Callable[[], None]
    ) -> None:
        self.may_end: set[str] = set()
        self._note = note
        self._cluster = cluster
        self._randomness = randomness
        self._starting: dict[str, asyncio.Task[None]] = {}

    def end(self, name: str, end: Callable[[BrokerProcess], object]) -> None:
        """End a node that runs, and start it again later."""
        if self._is_started(name):
            seconds = self._randomness.uniform(0.2, DOWN_SECONDS_MAX)
            self._starting[name] = asyncio.create_task(self._again(name, end, seconds))

    def look(self) -> None:
        """No node ends by itself, but where its disk fails; it is started again then."""
        for name, broker in self._cluster.brokers.items():
            if broker.alive or not self._is_started(name):
                continue
            assert name in self.may_end, f"{name} ended by itself: {broker.log_text()[-2_000:]}"
            self.end(name, lambda broker: None)

    async def until_started(self) -> None:
        """Wait until all nodes run."""
        await asyncio.gather(*self._starting.values())

    def _is_started(self, name: str) -> bool:
        before = self._starting.get(name)
        return before is None or before.done()

    async def _again(
        self, name: str, end: Callable[[BrokerProcess], object], seconds: float
    ) -> None:
        broker = self._cluster.brokers[name]
        broker.signal(signal.SIGCONT)
        self._note()
        await asyncio.to_thread(end, broker)
        self._note()
        await asyncio.sleep(seconds)
        deadline = time.monotonic() + START_SECONDS_MAX
        while True:
            try:
                await asyncio.to_thread(broker.start)
            except BrokerFailed:
                if name not in self.may_end or time.monotonic() > deadline:
                    raise
                await asyncio.sleep(seconds)
            else:
                return self._note()


def wipe(broker: BrokerProcess) -> None:
    """Kill a node, and take its data directory away."""
    broker.kill()
    shutil.rmtree(broker.data_dir)
