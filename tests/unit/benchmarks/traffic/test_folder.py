"""A folder for measurements is made where it is missing; one that cannot be made is said in one line."""

from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from routelog.benchmarks.__main__ import main
from routelog.benchmarks.perf.perf import perf_commands
from routelog.benchmarks.traffic.folder import scratch
from routelog.benchmarks.traffic.unexpected import BadRequest


def _single(command: Callable[..., None]) -> typer.Typer:
    tool = typer.Typer(pretty_exceptions_enable=False)
    tool.command()(command)
    return tool


TOOLS = {
    "comparison": (_single(main), []),
    "machine": (perf_commands, ["machine"]),
}


def test_a_missing_folder_is_made_and_left_empty(tmp_path: Path) -> None:
    folder = tmp_path / "made" / "here"
    with scratch(folder, "some-") as place:
        (place / "file").write_text("x")
        assert place.parent == folder
    assert list(folder.iterdir()) == []


def test_what_is_no_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(BadRequest, match="file"), scratch(tmp_path / "file", "some-"):
        pass


@pytest.mark.parametrize("name", TOOLS)
def test_every_tool_says_in_one_line_that_its_folder_cannot_be_made(
    name: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("x")
    tool, arguments = TOOLS[name]
    result = CliRunner().invoke(tool, [*arguments, "--folder", str(tmp_path / "file" / "below")])
    assert result.exit_code == 2, result.output
    assert "cannot be used" in result.output
    assert len(result.output.strip().splitlines()) == 1
