"""`python -m cluster.fronts --seeds 2000`: what clients of all nodes see is what clients of the leader see.

`--seed 17` shows one history; what differs is shrunk.
"""

import argparse
import asyncio
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cluster.fronts.broker_kinds import served_nodes
from cluster.fronts.drawn_steps import Drawing, Step
from cluster.fronts.same_history import Nodes, nodes_of, told


def main() -> int:
    """Run what the arguments ask for; 1 if something differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--seed", type=int, help="only this one")
    parser.add_argument("--shrinks", type=int, default=5, help="how many of what differs")
    parser.add_argument("--side-by-side", type=int, default=3, help="histories at a time")
    parser.add_argument("--without", nargs="*", default=(), help="kinds of steps, or true options")
    parser.add_argument("--seconds", type=float, default=1e9, help="no further one afterwards")
    arguments = parser.parse_args()
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    if arguments.seed is not None:
        seeds = range(arguments.seed, arguments.seed + 1)
    with TemporaryDirectory(prefix="same-") as folder, served_nodes(Path(folder)) as brokers:
        return asyncio.run(Runs(nodes_of(brokers), arguments).all(seeds))


class Runs:
    """Histories of many seeds."""

    def __init__(self, nodes: Nodes, arguments: argparse.Namespace) -> None:
        self._nodes = nodes
        self._arguments = arguments
        self._done: Counter[str] = Counter()
        self._failed: list[int] = []
        self._late = self._ran = 0

    async def all(self, seeds: range) -> int:
        """Run them, and shrink some of those that differ."""
        began = time.monotonic()
        end = began + self._arguments.seconds
        left = iter(seeds)
        await asyncio.gather(*(self._some(left, end) for _ in range(self._arguments.side_by_side)))
        seconds = time.monotonic() - began
        print(f"{self._ran:,} seeds in {seconds:.0f} s, {self._late} late: {dict(self._done)}")
        print(f"different: {sorted(self._failed)}", flush=True)
        for seed in sorted(self._failed)[: self._arguments.shrinks]:
            await self._shrink(seed)
        return bool(self._failed)

    def _steps(self, seed: int) -> list[Step]:
        unwanted = {*self._arguments.without}
        steps = Drawing(seed).steps()
        return [it for it in steps if not unwanted & {it.kind, *_true(it.options)}]

    async def _some(self, seeds: Iterator[int], end: float) -> None:
        for seed in seeds:
            if time.monotonic() > end:
                return
            difference, history = await self._nodes.run(self._steps(seed))
            self._ran += 1
            self._done.update(history.done)
            self._late += len(history.late)
            for each in history.late:
                print(f"seed {seed}, late: {each}", flush=True)
            if difference is not None:
                self._failed.append(seed)
                print(f"seed {seed}, at {difference.step}: {difference.said}", flush=True)

    async def _shrink(self, seed: int) -> None:
        steps = await self._nodes.shrunk(self._steps(seed))
        difference, _ = await self._nodes.run(steps)
        if difference is None:
            print(f"seed {seed}: not always, with {len(steps)} steps", flush=True)
            print(*steps, sep="\n", flush=True)
        else:
            print(f"seed {seed}, shrunk:\n{told(steps, difference)}", flush=True)


def _true(options: dict[str, Any]) -> list[str]:
    return [name for name, each in options.items() if each is True]


if __name__ == "__main__":
    sys.exit(main())
