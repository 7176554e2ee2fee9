"""A power cut before every single disk and metadata call of each workload.

Each workload runs once; before each of its calls, the disk says what a power cut at this moment may leave,
several times with other luck. A node then starts on each of these, is held to what was promised until that
moment, works on, loses power once more, and is held to its word again.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest
from crash.disks.committers import COMMITTERS, choose_committer
from crash.disks.node import Node, NodeStill
from crash.disks.powered_disk import PoweredDisk
from crash.disks.workloads import WORKLOADS
from support.sampling import sampled

from routelog.log_backend.metadata import metadata

pytestmark = pytest.mark.crash

# How many cuts a workload has, chosen by the seed; "all": one before every call.
CUTS = os.environ.get("ROUTELOG_TEST_CUTS", "12")
OUTCOMES = int(os.environ.get("ROUTELOG_TEST_CUT_OUTCOMES", "1"))
SEED = int(os.environ.get("ROUTELOG_TEST_SEED", "1"))
CALLS_UNTIL_SECOND_CUT = 40


async def stills_of(workload: str, root: Path, choice: random.Random) -> list[NodeStill]:
    """What power cuts before each call, and at the end, of a workload leave."""
    stills: list[NodeStill] = []

    def take(node: Node) -> None:
        stills.extend(node.still() for _ in range(OUTCOMES))

    node = Node(PoweredDisk(root / "0", choice), watch=take)
    await node.start()
    node = await WORKLOADS[workload](node, root)
    take(node)
    node.watch = lambda node: None
    await node.stop()
    return stills


async def work_on(node: Node, choice: random.Random) -> NodeStill:
    """Append to and settle from all queues; lose power on the way, or right after a confirm."""
    stills: list[NodeStill] = []
    at = node.disk.operations + choice.randint(1, CALLS_UNTIL_SECOND_CUT)

    def take(node: Node) -> None:
        if node.disk.operations >= at and not stills:
            stills.append(node.still())

    node.watch = take
    position = 0
    for name, generations in node.promises.queues.items():
        if generations[-1] is not None:
            node.append(name, 2, 400)
            first = node.log(name).low_water()
            if not node.log(name).is_stream:
                node.settle(name, first, first + 1)
            position = node.append(name, 1, 1_500)
    await node.confirmed(position)
    return stills[0] if stills else node.still()


async def check_cut(still: NodeStill, root: Path, choice: random.Random) -> None:
    """Start on a still, work on, lose power again, start once more."""
    node = await still.recovered(root / "first", choice)
    second = await work_on(node, choice)
    await node.stop()
    node = await second.recovered(root / "second", choice)
    await node.stop()


@pytest.mark.parametrize(("workload", "committer"), sampled(product(WORKLOADS, COMMITTERS), 7))
async def test_what_was_confirmed_outlives_a_power_cut_before_any_call(
    workload: str,
    committer: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    figures: Callable[[str], None],
) -> None:
    choose_committer(committer, monkeypatch)
    # So that cuts fall between writes of a checkpoint
    monkeypatch.setattr(metadata, "BATCHES_MAX", 2)
    choice = random.Random(f"{SEED} {workload} {committer}")
    stills = await stills_of(workload, tmp_path, choice)
    chosen = stills if CUTS == "all" else choice.sample(stills, min(int(CUTS), len(stills)))
    for number, still in enumerate(chosen):
        root = tmp_path / f"cut-{number}"
        try:
            await check_cut(still, root, choice)
        except Exception as error:
            pytest.fail(f"cut before call {still.operation}, kept in {root}: {error!r}")
        shutil.rmtree(root)
    if CUTS == "all":
        figures(f"{workload}: {len(chosen)} power cuts")
