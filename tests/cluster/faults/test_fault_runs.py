"""A short one of the runs of `make faults`, with faults of disks, clocks and etcd: these need no networks."""

import os
import subprocess
import sys
from pathlib import Path

from cluster.brokers.lanes import LANES

# A change of leader may double what the broker itself moves.
DOUBLED = ("delayed", "expiring", "limited", "rejected")
TESTS = Path(__file__).resolve().parents[2]


def test_nothing_is_lost_or_doubled_and_all_nodes_are_equal(tmp_path: Path) -> None:
    options = ["--seconds", "20", "--seed", "4", "--groups", "disk", "clock", "etcd"]
    lanes = [name for name in LANES if name not in DOUBLED]
    run = subprocess.run(
        [
            *(sys.executable, "-m", "cluster.broker_runs", *options),
            *("--lanes", *lanes, "--folder", str(tmp_path / "run")),
        ],
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
