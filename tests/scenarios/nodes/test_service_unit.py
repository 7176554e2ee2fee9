"""docs/deploy/routelog.service, read by systemd itself, which need not run."""

import subprocess
import sys
from pathlib import Path

UNIT = Path(__file__).parents[3] / "docs" / "deploy" / "routelog.service"


def test_systemd_takes_it(tmp_path: Path) -> None:
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text().replace("/opt/routelog/bin/routelog", sys.executable))
    verified = subprocess.run(
        ["systemd-analyze", "verify", str(copy)], capture_output=True, text=True
    )
    assert (verified.returncode, verified.stdout, verified.stderr) == (0, "", "")
