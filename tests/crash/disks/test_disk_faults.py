"""The k-th call of each kind fails, in each workload: EIO, and ENOSPC where space is asked for.

Whatever fails: nothing hangs, what is refused is refused with a reason, what is in memory is still read, the
node stops when asked to, and the next start finds all that was confirmed, also after a power cut on top.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import random
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pytest
from crash.disks.committers import COMMITTERS, choose_committer
from crash.disks.node import Node, NodeStill, recovered
from crash.disks.powered_disk import PoweredDisk
from crash.disks.test_power_cut_at_every_call import work_on
from crash.disks.workloads import WORKLOADS
from support.sampling import sampled
from support.waiting import WAIT_SECONDS
from unit.log_backend.open_store import unsettled

from routelog.log_backend import MetadataUnavailable
from routelog.log_backend.journal.journal import JournalFailed

pytestmark = pytest.mark.crash

# How many faults a workload has, chosen by the seed; "all": each kind of call at each place.
FAULTS = os.environ.get("ROUTELOG_TEST_FAULTS", "5")
SEED = int(os.environ.get("ROUTELOG_TEST_SEED", "1"))
TAKES_SPACE = {
    "allocate",
    "create",
    "fill",
    "make_directory",
    "rename",
    "sync",
    "truncate",
    "write",
}
READS = {"close", "open", "read"}  # a failed one may be a partition that is not read on in this run
REFUSALS = (JournalFailed, MetadataUnavailable, OSError)


@dataclass(frozen=True)
class Fault:
    """One call that fails."""

    kind: str
    number: int
    error_number: int

    def __str__(self) -> str:
        return f"{errno.errorcode[self.error_number]} at {self.kind} {self.number}"


class Run:
    """A workload on a disk with a fault.

    Attributes:
        node: the one that runs, or was about to.
        refused: what the workload ended with; None when the fault did not touch it.
    """

    def __init__(self, root: Path, choice: random.Random, fault: Fault | None = None) -> None:
        self.root = root
        self.disk = PoweredDisk(root / "0", choice)
        self._kind = fault.kind if fault is not None else ""
        if fault is not None:
            self.disk.plan.fail(fault.kind, fault.number, fault.error_number)
        self.plan = self.disk.plan
        self.node = Node(self.disk, watch=self._is_running)
        self.refused: Exception | None = None

    def _is_running(self, node: Node) -> None:
        self.node = node

    async def work(self, workload: str) -> None:
        """Start, and do the workload until it is refused."""
        try:
            await self.node.start()
            self.node = await WORKLOADS[workload](self.node, self.root)
        except TimeoutError:  # an OSError, too
            raise
        except REFUSALS as error:
            self.refused = error
        except AssertionError as error:
            if self._kind not in READS:
                raise
            self.refused = error

    async def check_refusal(self) -> None:
        """The node takes what comes, durably, or says why it does not."""
        node = self.node
        names = [name for name in node.promises.queues if name in node.vhost.queues]
        for name in names:
            if node.promises.queues[name][-1] is None or node.queue(name).declaring is not None:
                continue
            had_failed = bool(node.failures)
            refusal = await refusal_of(node, name)
            assert refusal is not None or not had_failed
            assert refusal is None or "made to fail" in str(refusal)
            assert len(node.failures) <= 1

    async def check_reads(self) -> None:
        """What is not settled can still be read."""
        node = self.node
        for name, queue in node.vhost.queues.items():
            promises = node.promised(name)
            found = dict(await unsettled(queue.partitions[0].log))
            missing = set(promises.bodies) - promises.settled - set(found)
            assert promises.keeps or not missing, f"{name}: cannot be read: {sorted(missing)[:10]}"

    async def stop(self) -> None:
        """The node stops, whatever has failed."""
        self.plan.repair()
        await self.node.stop()


async def refusal_of(node: Node, queue: str) -> JournalFailed | None:
    """Append a record and wait until it is durable; why the node does not take it."""
    try:
        await node.confirmed(node.append(queue))
    except JournalFailed as error:
        return error
    return None


async def calls_of(workload: str, root: Path) -> Counter[str]:
    """How many calls of each kind a workload makes."""
    run = Run(root, random.Random(0))
    await run.work(workload)
    assert run.refused is None, repr(run.refused)
    await run.stop()
    return run.plan.counts


def faults_of(counts: Counter[str]) -> list[Fault]:
    """Each call once with each error that it may end with."""
    faults = []
    for kind, count in sorted(counts.items()):
        errors = [errno.EIO, errno.ENOSPC] if kind in TAKES_SPACE else [errno.EIO]
        faults += [Fault(kind, n, error) for error in errors for n in range(1, count + 1)]
    return faults


async def check_fault(fault: Fault, workload: str, root: Path, choice: random.Random) -> None:
    """Run a workload with a fault, then restart, with and without a power cut on top."""
    run = Run(root, choice, fault)
    await run.work(workload)
    node = run.node
    still: NodeStill | None = None
    if node.is_started:
        if fault.kind not in READS:
            await run.check_reads()
        await run.check_refusal()
        still = node.still()
        await run.stop()
        node = await recovered(node.disk, node.promises)
        second = await work_on(node, choice)
        await node.stop()
        again = await second.recovered(root / "again", choice)
        await again.stop()
    elif hasattr(node, "writer"):
        still = node.still()
        await node.abandon()
    if still is not None:
        node = await still.recovered(root / "cut", choice)
        await node.stop()


@pytest.mark.parametrize(("workload", "committer"), sampled(product(WORKLOADS, COMMITTERS), 5))
async def test_a_failed_call_costs_nothing_that_was_confirmed(
    workload: str,
    committer: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    figures: Callable[[str], None],
) -> None:
    choose_committer(committer, monkeypatch)
    choice = random.Random(f"{SEED} {workload} {committer}")
    faults = faults_of(await calls_of(workload, tmp_path / "counted"))
    if FAULTS != "all":
        faults = choice.sample(faults, int(FAULTS))
    failures = []
    for number, fault in enumerate(faults):
        root = tmp_path / f"fault-{number}"
        root.mkdir()
        caplog.clear()
        try:
            async with asyncio.timeout(3 * WAIT_SECONDS):
                await check_fault(fault, workload, root, choice)
            told = [line for line in caplog.records if line.levelno >= logging.CRITICAL]
            assert len(told) <= 1, [line.getMessage() for line in told]
        except Exception as error:
            failures.append(f"{fault}: {error!r}")
        shutil.rmtree(root)
    if FAULTS == "all":
        figures(f"{workload}: {len(faults)} faults")
    assert not failures, "\n".join(failures)
