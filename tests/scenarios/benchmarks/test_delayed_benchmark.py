"""The benchmark of delayed messages counts what it published; here it is small, and no time is judged."""

from pathlib import Path

from typer.testing import CliRunner

from routelog.benchmarks.studies.delayed import tool


def test_after_a_kill_none_is_lost_and_none_early(tmp_path: Path) -> None:
    small = ["--messages", "3000", "--rate", "200", "--window", "3", "--lead", "20"]
    result = CliRunner().invoke(tool, [*small, "--folder", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert "600 in 3 s" in result.output
    assert not list(tmp_path.iterdir()), "it leaves nothing behind"
