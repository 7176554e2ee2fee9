"""The command line: what it offers, and what a command of it loads."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from routelog.__main__ import command_line

GROUPS = ["connection", "definitions", "index", "log", "permission", "queue", "trace", "user"]
EXTRAS = {"deltalake", "duckdb", "hdrh", "pyarrow", "pyiceberg", "pyspark"}
PROGRAM = """
import sys
from routelog.__main__ import command_line
try:
    command_line(sys.argv[1:])
finally:
    print(*sys.modules)
"""


def test_the_shell_is_told_the_commands_of_all_modules() -> None:
    asked = {"_ROUTELOG_COMPLETE": "complete_bash", "COMP_WORDS": "routelog ", "COMP_CWORD": "1"}
    result = CliRunner().invoke(command_line, [], prog_name="routelog", env=asked)
    offered = result.output.split()
    assert {"serve", "queue", "cluster", "top"} <= {*offered}
    assert "list_queues" not in offered  # a name of rabbitmqctl, which is not shown
    asked |= {"COMP_WORDS": "routelog queue pur", "COMP_CWORD": "2"}
    result = CliRunner().invoke(command_line, [], prog_name="routelog", env=asked)
    assert result.output.split() == ["purge"]


def test_the_version_is_one_line() -> None:
    result = CliRunner().invoke(command_line, ["--version"])
    assert result.exit_code == 0
    assert result.stdout.startswith("routelog ")
    assert result.stdout.count("\n") == 1


def test_the_help_lists_the_commands_of_all_modules() -> None:
    result = CliRunner().invoke(command_line, ["--help"])
    assert result.exit_code == 0
    for name in ("serve", "promote", "perf", "cluster", "restore", *GROUPS):
        assert f"│ {name} " in result.stdout
    for group in (*GROUPS, "backup"):
        result = CliRunner().invoke(command_line, [group, "--help"])
        assert (result.exit_code, result.stderr) == (0, "")


def test_an_unknown_command_is_refused() -> None:
    result = CliRunner().invoke(command_line, ["lst"])
    assert result.exit_code == 2
    assert "No such command 'lst'" in result.stderr


def loaded_by(*arguments: str) -> set[str]:
    """The modules that a command has loaded when it ends."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, timeout=60
    )
    return {*done.stdout.splitlines()[-1].split()}


@pytest.mark.parametrize(
    "line",
    [
        "--version",
        "backup create /nowhere",
        "limit list",
        "list queues",
        "list_queues",
        "log tail",
        "queue get q",
        "status",
        "top --once",
        "vhost delete v",
    ],
)
def test_a_command_that_asks_a_broker_loads_nothing_of_one(line: str) -> None:
    given = ["--data-dir", "/nowhere"] if line != "--version" else []
    found = loaded_by(*line.split(), *given)
    ours = {name for name in found if name.startswith("routelog.") and name.count(".") > 1}
    light = ("routelog.management.commands", "routelog.management.shapes", "routelog.__main__")
    assert not {name for name in ours if not name.startswith(light)}
    assert not found & {"aiohttp", "argon2", "asyncio", "rocksdict", "uvloop", *EXTRAS}


def test_the_command_line_starts_without_the_extras() -> None:
    found = loaded_by("--help")
    assert {"routelog.benchmarks.perf.perf", "routelog.spark_bridge.index.index_commands"} <= found
    assert not found & EXTRAS
