"""What an operator gets wrong is one line on stderr and an exit code, without a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.broker_process import ROOT

pytestmark = pytest.mark.differs_from_rabbitmq("its own commands")

# The superuser reads everything, unless that is taken from him.
AS_ANYBODY = (
    ("setpriv", "--bounding-set", "-dac_override,-dac_read_search") if os.geteuid() == 0 else ()
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "file").write_text("x")
    (tmp_path / "closed").mkdir(mode=0)
    (tmp_path / "cut.toml").write_text("port = \n")
    (tmp_path / "wrong.toml").write_text("prt = 1\n")
    return tmp_path


@pytest.mark.parametrize(
    ("command", "code", "told"),
    [
        ("serve --config cut.toml", 2, "cut.toml: not TOML"),
        ("serve --config wrong.toml", 2, "did you mean port?"),
        ("serve --set default_user=admin", 2, "needs a password: set ROUTELOG_DEFAULT_PASSWORD"),
        ("serve --data-dir file", 1, "data directory file: file: Not a directory"),
        ("serve --data-dir closed", 1, "data directory closed: closed: Permission denied"),
        ("log repair --yes file", 2, "file: Not a directory"),
        ("backup list none", 1, "no folder '{folder}/none'"),
        ("serve --set remote_storage=none", 2, "--set remote_storage: expected s3://... or file:"),
        ("backup verify .", 1, "no backup in '.'"),
        ("backup verify none", 1, "no folder '{folder}/none'"),
        ("restore none there", 1, "no folder '{folder}/none'"),
        ("restore file there", 1, "no folder '{folder}/file'"),
        ("restore . there", 1, "no whole backup in '.'"),
        ("restore . there --name x", 1, "no backup 'x' in '.'"),
        ("log dump none", 2, "none is no data directory of a broker"),
        ("status --url amqp://guest@127.0.0.1", 2, "--url: expected https://user@host:15671"),
    ],
)
def test_what_cannot_be_used_is_named_in_a_line(
    folder: Path, command: str, code: int, told: str
) -> None:
    done = subprocess.run(
        [*AS_ANYBODY, sys.executable, "-m", "routelog", *command.split()],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    (line,) = [each for each in done.stderr.splitlines() if each.startswith("routelog: ")]
    assert told.format(folder=folder) in line


def test_a_disk_without_room_for_what_is_printed_is_a_line() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "routelog", "--version"],
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    expected = "routelog: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, expected)
