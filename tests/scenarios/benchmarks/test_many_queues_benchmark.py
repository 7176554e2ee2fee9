"""The study of browsers shows the page and publishes; here it is small, and no time is judged."""

from pathlib import Path

from typer.testing import CliRunner

from routelog.benchmarks.studies.many_queues import tool


def test_a_browser_shows_the_queues_while_messages_are_confirmed(tmp_path: Path) -> None:
    small = ["--queues", "300", "--browsers", "1", "--turns", "1"]
    small += ["--seconds", "0.5", "--rate", "50", "--refresh", "0.2", "--only", "messages"]
    result = CliRunner().invoke(tool, [*small, "--folder", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert "300 queues, 50 messages a second" in result.output
    assert "by name: p99" not in result.output
    assert "by messages: p99" in result.output
    assert not list(tmp_path.iterdir()), "it leaves nothing behind"
