"""Faults of whole brokers, their disks, clocks, etcd and network, and commands, while clients work."""

import asyncio
import signal
import time
from collections.abc import Sequence
from pathlib import Path

from cluster.brokers.mirrored_brokers import NODES, MirroredBrokers
from cluster.brokers.queue_load import QueueLoad
from cluster.faults.etcd_faults import EtcdFaults
from cluster.faults.flipped_bits import flip_journal, flip_segment
from cluster.faults.network_faults import NetworkFaults
from cluster.faults.node_keeper import NodeKeeper, wipe
from cluster.faults.operator_faults import OperatorFaults
from cluster.faults.random_faults import Kind, RandomFaults
from support.broker_process import BrokerProcess

LEFT_SECONDS_MAX = 30.0  # until the others have left a node out that is down
CLOCK_SECONDS_MAX = 20  # what is delayed or expires by it must come within a run
SLOW_SECONDS_MAX = 0.5  # of a sync: half of what a lease leaves
_SECOND = 10**9
GROUPS = ("process", "network", "disk", "clock", "etcd", "operator", "segments", "losses")


class BrokerFaults(RandomFaults):
    """See the module.

    Args:
        groups: the kinds to draw from, see `kinds`; `network` only where the nodes have networks.
        folder: for backups.

    Attributes:
        operator: what was done by commands.
    """

    def __init__(
        self,
        cluster: MirroredBrokers,
        load: QueueLoad,
        seed: int,
        *,
        groups: Sequence[str],
        folder: Path,
    ) -> None:
        super().__init__(seed, NODES)
        self._cluster = cluster
        self._groups = groups
        self._keeper = NodeKeeper(cluster, self.randomness, self.note)
        self.operator = OperatorFaults(
            cluster, self._keeper, load, folder, self.randomness, self.note
        )

    def kinds(self) -> Sequence[Kind]:
        """See `RandomFaults`."""
        etcd = EtcdFaults(self._cluster, self.last, self._until_all_in_sync)
        groups: dict[str, Sequence[Kind]] = {
            "process": [
                (4, self._kill),
                (3, self._stop),
                (1, self._kill_all),
                (3, self._hand_over),
            ],
            "disk": [
                (2, self._full_disk),
                (2, self._slow_disk),
                (3, self._hanging_disk),
                (3, self._failing_disk),
                (2, self._flipped_bits),
                (2, self._wipe),
            ],
            "clock": [(2, self._clock_jumps)],
            "etcd": etcd.kinds(),
            "operator": self.operator.kinds(),
            "segments": [(4, self._flipped_segment)],
            "losses": etcd.losses(),
        }
        if self._cluster.networks is not None:
            network = NetworkFaults(self._cluster.networks, self.randomness, self.last)
            groups["network"] = [*network.kinds(), (3, self._there_and_back)]
        return [kind for group in self._groups for kind in groups[group]]

    async def leader(self) -> str:
        """See `RandomFaults`."""
        status = await asyncio.to_thread(self._cluster.status)
        for shard in status.get("shards", ()):
            return str(shard["leader"]).partition("@")[0]
        return ""

    async def look(self) -> None:
        """See `NodeKeeper.look`."""
        self._keeper.look()

    async def heal(self) -> None:
        """Nothing is wrong any more; returns when all nodes run, and all commands are done."""
        for system in self._cluster.systems.values():
            system.heal()
        await asyncio.sleep(1)  # one may be about to end because of what was wrong
        self._keeper.look()
        await self._keeper.until_started()
        await self.operator.until_done()
        await self._keeper.until_started()

    async def _until_all_in_sync(self) -> None:
        # One disk at a time, and all others have everything: a second loss would be one of confirmed messages.
        await self.heal()
        await asyncio.to_thread(self._cluster.until_led, in_sync=len(NODES))

    # -- processes

    async def _kill(self, name: str) -> None:
        self._keeper.end(name, lambda broker: broker.kill())

    async def _hand_over(self, name: str) -> None:
        self._keeper.end(name, lambda broker: broker.terminate())

    async def _kill_all(self, name: str) -> None:
        for each in NODES:
            self._keeper.end(each, lambda broker: broker.kill())

    async def _stop(self, name: str) -> None:
        broker = self._cluster.brokers[name]
        broker.signal(signal.SIGSTOP)
        await self.last()
        broker.signal(signal.SIGCONT)

    async def _there_and_back(self, name: str) -> None:
        """Another node leads, gives the offsets anew that this one gave, and then this one leads again."""
        await self._until_all_in_sync()
        networks = self._cluster.networks
        assert networks is not None
        first = await self.leader() or name
        await NetworkFaults(networks, self.randomness, self.last).minority(first)
        await asyncio.to_thread(self._cluster.until_led, in_sync=len(NODES))
        self.note()
        await asyncio.to_thread(self._cluster.ask, "transfer", "--to", f"{first}@test")

    # -- disks and clocks

    async def _full_disk(self, name: str) -> None:
        self._keeper.may_end.add(name)  # one that starts meanwhile
        await self._disk(name, full=1)

    async def _slow_disk(self, name: str) -> None:
        await self._disk(name, slow=round(self.randomness.uniform(0.02, SLOW_SECONDS_MAX) * 1e6))

    async def _hanging_disk(self, name: str) -> None:
        await self._disk(name, hanging=1)

    async def _failing_disk(self, name: str) -> None:
        self._keeper.may_end.add(name)
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

    async def _wipe(self, name: str) -> None:
        await self._until_all_in_sync()
        self._keeper.end(name, wipe)

    async def _flipped_bits(self, name: str) -> None:
        """In the journal of a node that follows, or that led until then."""
        await self._until_all_in_sync()

        def flip(broker: BrokerProcess) -> None:
            # In sync, it could lead with what it has: a flip in its last block looks like a torn write.
            broker.kill()
            deadline = time.monotonic() + LEFT_SECONDS_MAX
            while self._is_in_sync(broker):
                assert time.monotonic() < deadline, self._cluster.log_text()[-2_000:]
                time.sleep(0.1)
            self.struck[-1] += f" {flip_journal(broker.data_dir, self.randomness)}"

        self._keeper.end(name, flip)

    async def _flipped_segment(self, name: str) -> None:
        """In a queue's file of a node that follows, or that led until then."""
        await self._until_all_in_sync()

        def flip(broker: BrokerProcess) -> None:
            broker.kill()
            self.struck[-1] += f" {flip_segment(broker.data_dir, self.randomness)}"

        self._keeper.end(name, flip)

    def _is_in_sync(self, broker: BrokerProcess) -> bool:
        shards = self._cluster.status().get("shards", ())
        return not shards or f"{broker.data_dir.name}@test" in shards[0]["in_sync"]
