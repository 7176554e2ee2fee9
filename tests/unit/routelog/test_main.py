"""The command line: what it offers, and what a command of it loads."""

import gc
import os
import signal
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
import typer
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


@pytest.mark.parametrize(
    ("line", "reason", "usage"),
    [
        (
            "lst",
            "no such command 'lst'. Did you mean 'list'",
            "routelog [OPTIONS] COMMAND [ARGS]...",
        ),
        ("nonsense", "no such command 'nonsense'", "routelog [OPTIONS] COMMAND [ARGS]..."),
        ("queue purg", "no such command 'purg'. Did you mean 'purge'?", "routelog queue "),
        ("queue purge", "missing argument 'name'", "routelog queue purge [OPTIONS] {name}"),
        ("queue purge a b", "got unexpected extra argument(s) (b)", "routelog queue purge "),
        ("serve --nope", "no such option: --nope", "routelog serve [OPTIONS]"),
        ("cluster drain", "missing argument 'NODE'", "routelog cluster drain [OPTIONS] {NODE}"),
        ("log dump x --limit 0", "invalid value for '--limit': ", "routelog log dump [OPTIONS] "),
        ("perf drain --size a", "invalid value for '--size': ", "routelog perf drain [OPTIONS]"),
        ("export run", "missing argument 'table'", "routelog export run [OPTIONS] {table}"),
        ("restore a", "missing argument 'data_dir'", "routelog restore [OPTIONS] {source} "),
        (
            "log dump x --queue q --journal",
            "give either --queue or --journal",
            "routelog log dump ",
        ),
    ],
)
def test_wrong_usage_is_a_line_with_a_hint(line: str, reason: str, usage: str) -> None:
    result = CliRunner().invoke(command_line, line.split())
    assert (result.exit_code, result.stdout) == (2, "")
    told, hint = result.stderr.splitlines()
    assert told.startswith(f"routelog: {reason}")
    assert hint.startswith(f"usage: {usage}")
    assert hint.endswith(" (--help says more)")


def test_a_group_without_a_command_shows_its_help() -> None:
    result = CliRunner().invoke(command_line, ["queue"])
    assert (result.exit_code, result.stderr) == (2, "")
    assert "│ purge " in result.stdout


def test_input_that_ends_at_a_prompt_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def end(*_: object, **__: object) -> str:
        raise typer.Abort

    monkeypatch.setattr("routelog.management.commands.commands.prompt_password", end)
    result = CliRunner().invoke(command_line, ["user", "hash-password"])
    assert (result.exit_code, result.stderr) == (1, "routelog: aborted\n")


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


def test_nobody_looks_for_garbage_while_a_command_is_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looking = []

    def load(name: str) -> ModuleType:
        looking.append(gc.isenabled())
        return import_module(name)

    monkeypatch.setattr("routelog.__main__.import_module", load)
    assert CliRunner().invoke(command_line, ["user", "--help"]).exit_code == 0
    assert looking == [False]
    assert gc.isenabled()


def test_the_command_line_starts_without_the_extras() -> None:
    found = loaded_by("--help")
    assert {"routelog.benchmarks.perf.perf", "routelog.spark_bridge.index.index_commands"} <= found
    assert not found & EXTRAS


@pytest.mark.parametrize("command", [["serve"], ["follow", "127.0.0.1:1"]])
def test_a_node_that_starts_is_not_ended_by_sighup(command: list[str], tmp_path: Path) -> None:
    configuration = tmp_path / "routelog.toml"
    os.mkfifo(configuration)
    line = [sys.executable, "-m", "routelog", *command, "--config", str(configuration)]
    with subprocess.Popen(line, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as node:
        with configuration.open("w") as file:  # when the node reads it
            node.send_signal(signal.SIGHUP)
            file.write("no TOML")
        _, said = node.communicate(timeout=30)
    assert node.returncode == 2, said
    assert "not TOML" in said
