"""Faults that are drawn from a seed, one after another: some strike while the one before is being healed."""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from random import Random

PAUSE_SECONDS_MAX = 4.0  # between two faults
FAULT_SECONDS_MAX = 6.0  # three leases

Kind = tuple[int, Callable[[str], Awaitable[None]]]
Rest = Callable[[], Awaitable[None]]  # as long as a fault lasts


class RandomFaults(ABC):
    """See the module.

    Attributes:
        struck: what was done, in order.
        times: when.
    """

    def __init__(self, seed: int, names: Sequence[str]) -> None:
        self.struck: list[str] = []
        self.times: list[float] = []
        self.randomness = Random(seed)
        self._names = names

    @abstractmethod
    def kinds(self) -> Sequence[Kind]:
        """Weight of each kind, and what strikes a node."""

    @abstractmethod
    async def leader(self) -> str:
        """Who leads: half of the faults strike there. Empty: nobody knows."""

    async def look(self) -> None:  # noqa: B027 - an error is what it is for
        """Called behind each fault."""

    async def strike(self, seconds: float) -> None:
        """Let things go wrong for so long; what is not healed by itself is left to who inherits."""
        ends = time.monotonic() + seconds
        kinds = self.kinds()
        while time.monotonic() < ends:
            await asyncio.sleep(self.randomness.uniform(0, PAUSE_SECONDS_MAX))
            ((_, kind),) = self.randomness.choices(kinds, [weight for weight, _ in kinds])
            name = await self._node()
            self.struck.append(f"{kind.__name__.strip('_')} {name}")
            self.note()
            await kind(name)
            self.note()
            await self.look()

    def note(self) -> None:
        """Something goes wrong now, or ends to."""
        self.times.append(time.monotonic())

    async def last(self) -> None:
        """Wait as long as a fault lasts, which began a moment ago."""
        self.note()
        await asyncio.sleep(self.randomness.uniform(0.1, FAULT_SECONDS_MAX))
        self.note()

    async def _node(self) -> str:
        name = self.randomness.choice(self._names)
        wants_leader = self.randomness.random() < 0.5
        return (await self.leader() or name) if wants_leader else name
