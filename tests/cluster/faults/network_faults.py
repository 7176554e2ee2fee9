"""Faults of the network between nodes: cuts of every shape, and one that is slow and loses packets."""

from collections.abc import Sequence
from random import Random

from cluster.brokers.mirrored_brokers import NODES
from cluster.faults.random_faults import Kind, Rest
from cluster.node_networks import CLIENTS, NodeNetworks


class NetworkFaults:
    """See the module. Each heals by itself."""

    def __init__(self, networks: NodeNetworks, randomness: Random, rest: Rest) -> None:
        self._networks = networks
        self._randomness = randomness
        self._rest = rest

    def kinds(self) -> Sequence[Kind]:
        """Weight of each, and what strikes a node."""
        return [
            (2, self.cut_off),
            (3, self.minority),
            (2, self.bridge),
            (2, self.deaf),
            (2, self.mute),
            (2, self.slow_and_lossy),
        ]

    async def cut_off(self, name: str) -> None:
        """Nobody reaches the node, nor it anybody."""
        await self._until_rested(*((name, each) for each in self._others(name)), both=True)

    async def minority(self, name: str) -> None:
        """The other nodes cannot reach it; its clients can, and publish what nobody else gets."""
        pairs = [(name, each) for each in self._others(name) if each != CLIENTS]
        await self._until_rested(*pairs, both=True)

    async def bridge(self, name: str) -> None:
        """Both others reach the node, and not each other."""
        first, second = (each for each in self._others(name) if each != CLIENTS)
        await self._until_rested((first, second), both=True)

    async def deaf(self, name: str) -> None:
        """Nothing reaches the node; what it sends arrives."""
        await self._until_rested(*((each, name) for each in self._others(name)))

    async def mute(self, name: str) -> None:
        """Nothing that the node sends arrives."""
        await self._until_rested(*((name, each) for each in self._others(name)))

    async def slow_and_lossy(self, name: str) -> None:
        """What the node sends is late, and some of it lost."""
        self._networks.delay(name)
        await self._rest()
        self._networks.hurry(name)

    async def _until_rested(self, *pairs: tuple[str, str], both: bool = False) -> None:
        for sender, receiver in pairs:
            self._networks.lose(sender, receiver)
            if both:
                self._networks.lose(receiver, sender)
        await self._rest()
        self._networks.heal()

    def _others(self, name: str) -> list[str]:
        return [each for each in (*NODES, CLIENTS) if each != name]
