"""The program of a pass, without its broker."""

from __future__ import annotations

import subprocess
from pathlib import Path

import msgspec
from support.waiting import WAIT_SECONDS
from unit.log_backend.segments.test_compaction_pass import task, written

from routelog.log_backend.upkeep.compaction_process import PROGRAM


def test_it_writes_nothing_when_the_broker_is_gone(tmp_path: Path) -> None:
    given = task(tmp_path, written(tmp_path, [[("a", b"1")], [("a", b"2")]]))
    line = tmp_path / "task"
    line.write_bytes(msgspec.json.encode(given) + b"\n")
    with line.open("rb") as ended:
        done = subprocess.run(
            PROGRAM, stdin=ended, capture_output=True, timeout=WAIT_SECONDS, check=False
        )
    assert (done.stdout, done.stderr) == (b"", b"the broker is gone\n")
    assert not list(Path(given.scratch).iterdir())
