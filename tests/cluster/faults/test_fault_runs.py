"""A short one of the runs of `make faults`; with cuts where nodes can have networks of their own."""

import os
import subprocess
import sys
from pathlib import Path

from cluster.brokers.mirrored_brokers import NODES
from cluster.faults.broker_faults import GROUPS
from cluster.node_networks import NoNetworks, node_networks

SECONDS = os.environ.get("ROUTELOG_TEST_FAULT_SECONDS", "15")
TESTS = Path(__file__).resolve().parents[2]


def possible_groups() -> list[str]:
    try:
        with node_networks(NODES):
            return list(GROUPS)
    except NoNetworks:
        return [group for group in GROUPS if group != "network"]


def test_each_message_ends_where_it_must_whatever_fails(tmp_path: Path) -> None:
    run = subprocess.run(
        [
            *(sys.executable, "-m", "cluster.broker_runs", "--seconds", SECONDS, "--seed", "4"),
            *("--groups", *possible_groups()),
            *("--folder", str(tmp_path / "run")),
        ],
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
