"""The benchmark of restarts finds what it stored; here it is small, and no time is judged."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from routelog.benchmarks.studies.restart import tool


@pytest.mark.parametrize(
    "arguments",
    [
        ["backlog", "--messages", "3000"],
        ["queues", "--count", "700"],
        ["queues", "--count", "20", "--messages", "3"],
    ],
    ids=["backlog", "queues", "filled queues"],
)
def test_a_broker_comes_back_after_both_ends(arguments: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "made" / "here"
    result = CliRunner().invoke(tool, [*arguments, "--folder", str(folder)])
    assert result.exit_code == 0, result.output
    assert "SIGKILL" in result.output
    assert "clean stop" in result.output
    assert not list(folder.iterdir()), "it leaves nothing behind"
