"""A network that delays, drops, duplicates and reorders, and can be cut in each direction alone."""

from collections.abc import Callable
from random import Random
from typing import Any

from simulation.scheduler import Scheduler


class Network:
    """Paths between nodes, and to the coordinator, which is called `etcd` here.

    Attributes:
        cuts: paths on which nothing arrives.
        lost: on these, messages of replicas do not.
    """

    def __init__(self, scheduler: Scheduler, randomness: Random) -> None:
        self.cuts: set[tuple[str, str]] = set()
        self.lost: set[tuple[str, str]] = set()
        self.drop = 0.0
        self.duplicate = 0.0
        self.jitter = 0.0
        self._life = 0
        self._scheduler = scheduler
        self._randomness = randomness

    def is_open(self, source: str, target: str) -> bool:
        """Whether what is sent can arrive."""
        return (source, target) not in self.cuts

    def send(self, source: str, target: str, call: Callable[..., Any], *arguments: Any) -> None:
        """Let something happen at the other end, if it arrives."""
        chance = self._randomness.random
        if (source, target) in self.lost or not self.is_open(source, target):
            return
        if self.drop and chance() < self.drop:
            return
        message = (self._arrive, self._life, call, *arguments)
        self._scheduler.after(self.delay(), *message)
        if self.duplicate and chance() < self.duplicate:
            self._scheduler.after(self.delay() + self._randomness.uniform(0, 3.0), *message)

    def forget(self) -> None:
        """What was sent, and has not arrived yet, does not arrive any more."""
        self._life += 1

    def _arrive(self, life: int, call: Callable[..., Any], *arguments: Any) -> None:
        if life == self._life:
            call(*arguments)

    def delay(self) -> float:
        """How long something takes to arrive."""
        delay = self._randomness.uniform(0.0005, 0.003)
        if self.jitter:
            delay += self._randomness.expovariate(1 / self.jitter)
        return delay
