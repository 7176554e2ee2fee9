"""One history of a cluster whose nodes all serve clients: work among faults, then peace, then the account."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from unittest.mock import patch

from simulation.broker import at_once
from simulation.cluster import MEMORY, TOLD_SECONDS, Cluster, Outcome, _run, errors_logged
from simulation.fronts.faults import FrontFaults
from simulation.fronts.freed import unfreed
from simulation.fronts.node import FrontsNode
from simulation.fronts.process import simulated_processes
from simulation.fronts.wire import Host, Medium, Wire
from simulation.fronts.work import QUEUES, Work

from routelog.log_backend.journal import journal

FAULT_SECONDS = 6.0
HEAL_SECONDS = 30.0
STOP_SECONDS = 30.0  # for all that clients wait for to end
FREE_SECONDS = 10.0


class FrontsCluster(Cluster):
    """See the module."""

    nodes: dict[str, FrontsNode]  # type: ignore[assignment]
    node_type = FrontsNode
    faults_type = FrontFaults
    window_bytes = 64 * 1024

    def __init__(self, seed: int, directory: Path, traces: bool = False) -> None:
        super().__init__(seed, traces, directory)
        self.clients = None
        self._medium = Medium(self.scheduler, self.network, self._part())
        self._ports = 10_000
        self.wires: list[Wire] = []
        self.work = Work(self, self._part())

    def wire(self, near: Host, far: Host) -> Wire:
        """Connect two of them."""
        self._ports += 1
        wire = Wire(self._medium, near, far, self._ports)
        self.wires = [each for each in self.wires if not each.is_over]
        self.wires.append(wire)
        return wire

    def run(self) -> None:
        """Live through it.

        Raises:
            Violation: an invariant does not hold.
        """
        for node in self.nodes.values():
            node.start()
        self._wait(HEAL_SECONDS, "nobody serves", self._is_well)
        work = self.work
        work.machine.enter(work.set_up)
        self._wait(HEAL_SECONDS, "nothing is set up", lambda: None if work.is_set_up else "")
        work.machine.enter(work.start)
        self.faults.begin()
        self.scheduler.run_until(self.scheduler.now + FAULT_SECONDS)
        self.faults.end()
        self.trace("faults", "healed")
        work.stops = True
        self._wait(STOP_SECONDS, "clients wait for ever", lambda: work.pending)
        self._wait(HEAL_SECONDS, "not healed", self._is_well)
        self._wait(FREE_SECONDS, "not freed", lambda: unfreed(self.nodes.values(), work.consumed))
        found = {queue: self._drained(queue) for queue in QUEUES}
        work.ledger.check(found)
        self._wait(
            FREE_SECONDS,
            "not freed at the end",
            lambda: unfreed(self.nodes.values(), work.consumed),
        )
        self.checker.counts.update(work.ledger.counts)

    def _drained(self, queue: str) -> list[bytes]:
        found: list[list[bytes]] = []

        def begin() -> None:
            task = self.work.machine.loop.create_task(self.work.drain(queue))
            task.add_done_callback(lambda done: found.append(done.result()))

        self.work.machine.enter(begin)
        self._wait(HEAL_SECONDS, f"{queue} is not drained", lambda: None if found else queue)
        return found[0]


@contextmanager
def simulated(seed: int) -> Iterator[Path]:
    """What the processes of a seed need around them; gives a directory for their data."""
    memory = MEMORY if os.path.isdir(MEMORY) else None
    with (
        TemporaryDirectory(prefix="simulation-", dir=memory) as directory,
        patch.object(ThreadPoolExecutor, "submit", at_once),
        patch.object(journal, "TOLD_SECONDS_MAX", TOLD_SECONDS),
        simulated_processes(Random(seed)),
    ):
        yield Path(directory)


def run(seed: int, traces: bool = False) -> Outcome:
    """The history of a seed."""
    with simulated(seed) as directory, errors_logged() as errors:
        outcome = _run(FrontsCluster(seed, directory, traces))
    if errors and outcome.violation is None:
        return replace(outcome, violation=f"an error is logged: {errors[0]}")
    return outcome


__all__ = ["FrontsCluster", "run", "simulated"]
