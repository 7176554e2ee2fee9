"""A disk that loses, tears and reorders what was not synced, and that can hang."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from simulation.scheduler import Scheduler

from routelog.log_backend import START, Mark, ShardBlock
from routelog.mirror_cluster.protocol.promise import NOTHING, Promise
from routelog.mirror_cluster.replica.chain import Chain

Event = Any


@dataclass
class Platter:
    """What a power cut leaves.

    Attributes:
        rotten: the places of what is applied that cannot be read.
    """

    incarnation: int
    base: Mark = START
    applied: int = 0
    promise: Promise = NOTHING
    rotten: frozenset[int] = frozenset()

    @property
    def is_rotten(self) -> bool:
        """Whether something cannot be read."""
        return bool(self.rotten)


Image = tuple[Platter, dict[int, ShardBlock]]


class Disk:
    """The disk of one node. Changes are synced in order, one sync after the other."""

    def __init__(self, scheduler: Scheduler, randomness: Random, incarnation: int) -> None:
        self.platter = Platter(incarnation)
        self.slots: dict[int, ShardBlock] = {}
        self.hangs_until = 0.0
        self.deliver: Callable[[Event], None] = lambda event: None
        self._scheduler = scheduler
        self._randomness = randomness
        self._pending: list[tuple[tuple[Any, ...], Event | None]] = []
        self._syncs = False
        self._life = 0

    def change(self, operation: tuple[Any, ...], event: Event | None = None) -> None:
        """Write something; the event comes when it is synced."""
        self._pending.append((operation, event))
        if not self._syncs:
            self._sync()

    def swap(self, checkpoint: Mark, rotten: frozenset[int]) -> None:
        """Put a copy in the place of everything, durably and at once."""
        self.platter.rotten = rotten
        events = [event for _, event in self._apply(len(self._pending))]
        self.slots.clear()
        self.platter.base, self.platter.applied = checkpoint, checkpoint.position
        for event in events:
            self._tell(event)

    def crash(self, power: bool) -> None:
        """The process ends; with `power`, what was not synced is in danger."""
        self._life += 1
        self._syncs = False
        if not power:
            self._apply(len(self._pending))
        elif self._randomness.random() < 0.5:
            self._apply(self._randomness.randrange(len(self._pending) + 1))
        else:
            for operation, _ in self._pending:
                self._tear(operation)
        self._pending.clear()

    def wipe(self, incarnation: int) -> None:
        """Another disk is put in."""
        self.crash(power=False)
        self.slots.clear()
        self.platter = Platter(incarnation)

    def damage(self, incarnation: int) -> None:
        """A block is found damaged in the midst of the journal: what is left is another disk's."""
        self.crash(power=False)
        applied = self.platter.applied
        kept = self._randomness.randrange(applied, max([applied, *self.slots]) + 1)
        for position in [each for each in self.slots if each > kept]:
            del self.slots[position]
        self.platter.incarnation = incarnation

    def image(self) -> Image:
        """What is on it, to be put back later."""
        return replace(self.platter), {**self.slots}

    def put_back(self, image: Image) -> None:
        """What was on it at some time is there again; no process runs."""
        platter, slots = image
        self.platter, self.slots = replace(platter), {**slots}

    def recover(self) -> tuple[Chain, dict[int, ShardBlock]]:
        """The journal: blocks that follow each other from the base on."""
        chain, blocks = Chain(self.platter.base), {}
        while (block := self.slots.get(chain.end_position + 1)) and block.follows(chain.end):
            chain.extend(block)
            blocks[block.position] = block
        return chain, blocks

    def has(self, mark: Mark) -> bool:
        """Whether a block is on the platter, or in the checkpoint."""
        if mark.position <= self.platter.base.position:
            return True
        block = self.slots.get(mark.position)
        return block is not None and block.mark == mark

    def _sync(self) -> None:
        self._syncs = True
        latency = self._randomness.uniform(0.001, 0.01)
        self._scheduler.after(latency, self._synced, self._life, len(self._pending))

    def _synced(self, life: int, count: int) -> None:
        if life != self._life:
            return
        if self.hangs_until > self._scheduler.now:
            self._scheduler.after(0.1, self._synced, life, count)
            return
        self._syncs = False
        for _, event in self._apply(count):
            self._tell(event)
        if life == self._life and self._pending and not self._syncs:
            self._sync()

    def _tell(self, event: Event | None) -> None:
        if event is not None:  # from the disk's thread: one notice may overtake another
            self._scheduler.after(
                self._randomness.uniform(0, 0.005), self._notice, self._life, event
            )

    def _notice(self, life: int, event: Event) -> None:
        if life == self._life:
            self.deliver(event)

    def _apply(self, count: int) -> list[tuple[tuple[Any, ...], Event | None]]:
        done, self._pending = self._pending[:count], self._pending[count:]
        for operation, _ in done:
            self._write(operation)
        return done

    def _write(self, operation: tuple[Any, ...]) -> None:
        match operation:
            case ("block", block):
                self.slots[block.position] = block
            case ("erase", position):
                for place in [each for each in self.slots if each > position]:
                    del self.slots[place]
            case ("promise", promise):
                self.platter.promise = promise
            case ("checkpoint", applied, base):
                self.platter.applied, self.platter.base = applied, base
                for place in [each for each in self.slots if each <= base.position]:
                    del self.slots[place]

    def _tear(self, operation: tuple[Any, ...]) -> None:
        chance = self._randomness.random
        match operation:
            case ("block", block) if chance() < 0.3:
                self.slots.pop(block.position, None)  # half of it, over what was there
            case ("erase", position):
                for place in [each for each in self.slots if each > position and chance() < 0.5]:
                    del self.slots[place]
            case _ if chance() < 0.5:
                self._write(operation)
