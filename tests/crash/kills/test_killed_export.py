"""SIGKILL at each step of an export: the table has each record once, and nothing lies about."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.sampling import sampled
from unit.spark_bridge.lakes.test_exporter import FORMATS, places
from unit.spark_bridge.log_files import LogFiles

ROOT = Path(__file__).parents[3]
KILLS_MIN = {"delta": 20, "parquet": 20, "iceberg": 20}
pytestmark = pytest.mark.crash


@pytest.mark.parametrize("kind", sampled(FORMATS, 3))
def test_an_export_that_is_killed_at_each_step_is_exact(kind: str, tmp_path: Path) -> None:
    expected = []
    for queue in ("audit", "orders"):
        for partition in range(2):
            log = LogFiles(tmp_path / "data", queue, partition, number=partition)
            for base in range(0, 300, 100):
                log.numbered_segment(base, 40, 60)
            expected += [(queue, partition, offset) for offset in range(300)]
    table = tmp_path / "table"
    program = [sys.executable, str(Path(__file__).with_name("killed_export.py"))]
    done = subprocess.run(
        [*program, str(tmp_path / "data"), str(table), kind],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > KILLS_MIN[kind]
    assert places(kind, table) == expected
    if kind == "delta":
        from deltalake import DeltaTable

        listed = {Path(uri).name for uri in DeltaTable(table).file_uris()}
        assert {path.name for path in table.rglob("*.parquet")} == listed
    if kind == "parquet":
        assert not (table / "_writing").exists()
