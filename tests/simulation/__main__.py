"""`python -m simulation --seeds 10000`: many histories; `--seed 17` shows one, step by step."""

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from simulation import cluster
from simulation.cluster import Outcome
from simulation.fronts import cluster as fronts_cluster

Run = Callable[..., Outcome]


def main() -> int:
    """Run what the arguments ask for; 1 if an invariant does not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1_000, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seed", type=int, help="only this one, with its timeline")
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--fronts", action="store_true", help="clients at all nodes, and sessions")
    kinds.add_argument("--brokers", action="store_true", help="nodes of all seeds are brokers")
    arguments = parser.parse_args()
    run: Run = fronts_cluster.run if arguments.fronts else cluster.run
    if arguments.brokers:
        run = partial(cluster.run, with_brokers=True)
    if arguments.seed is not None:
        return show(run(arguments.seed, traces=True))
    began = time.monotonic()
    counts: Counter[str] = Counter()
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    failed = []
    for outcome in outcomes(run, seeds, arguments.processes):
        counts.update(outcome.counts)
        if outcome.violation is not None:
            failed.append(outcome.seed)
            print(f"seed {outcome.seed}: {outcome.violation}", flush=True)
    seconds = time.monotonic() - began
    times = os.times()
    used = times.user + times.system + times.children_user + times.children_system
    text = f"{arguments.seeds:,} seeds in {seconds:.0f} s, {used:.0f} s of processors"
    print(f"{text}, {len(failed)} violations")
    print(", ".join(f"{name} {count:,}" for name, count in sorted(counts.items())))
    if failed:
        kind = " --fronts" if arguments.fronts else " --brokers" if arguments.brokers else ""
        print(f"python -m simulation --seed {failed[0]}{kind} shows the first")
    return bool(failed)


def outcomes(run: Run, seeds: range, processes: int) -> Iterator[Outcome]:
    """What became of each seed."""
    if processes == 1:
        yield from map(run, seeds)
        return
    with ProcessPoolExecutor(processes) as pool:
        yield from pool.map(run, seeds, chunksize=20)


def show(outcome: Outcome) -> int:
    """Print the timeline of a seed."""
    print("\n".join(outcome.timeline))
    return outcome.violation is not None


if __name__ == "__main__":
    sys.exit(main())
