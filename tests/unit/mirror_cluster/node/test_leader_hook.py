"""A program that is told who leads, with real processes."""

import asyncio
import os
from pathlib import Path

import pytest

from routelog.mirror_cluster.node import leader_hook
from routelog.mirror_cluster.node.leader_hook import LeaderHook


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader_hook, "HOOK_SECONDS_MAX", 60.0)  # a shell may take 10 to start


@pytest.fixture
def told(tmp_path: Path) -> Path:
    return tmp_path / "told"


def lines(file: Path) -> list[str]:
    return file.read_text().splitlines()


def program(tmp_path: Path, *script: str) -> str:
    file = tmp_path / "hook"
    file.write_text("\n".join(("#!/bin/sh", *script)) + "\n")
    file.chmod(0o755)
    return str(file)


async def test_it_is_told_of_this_node_and_the_leader_once_for_each_change(
    tmp_path: Path, told: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    hook = LeaderHook([program(tmp_path, 'echo "$2 $3 $#" >> "$1"'), str(told)], "a b; exit 3")
    for leader in ("q@b", "q@b", "$(q@c)", "q@b"):
        hook.leads(leader)
        await hook.aclose()
    # Without a shell: names are arguments, whatever stands in them.
    assert lines(told) == [f"a b; exit 3 {leader} 3" for leader in ("q@b", "$(q@c)", "q@b")]
    assert "told that q@b leads, ended with status 0" in caplog.text


async def test_of_changes_while_it_runs_it_is_told_of_the_last(tmp_path: Path, told: Path) -> None:
    gates = [tmp_path / leader for leader in ("q@b", "q@d")]
    for gate in gates:
        os.mkfifo(gate)
    script = program(tmp_path, f'read line < "{tmp_path}/$3"; echo "$3" >> "$1"')
    hook = LeaderHook([script, str(told)], "q@a")
    hook.leads("q@b")
    await asyncio.sleep(0)  # it begins
    for leader in ("q@c", "q@d"):
        hook.leads(leader)
    for gate in gates:
        await asyncio.to_thread(gate.write_text, "go\n")  # when somebody reads
    await hook.aclose()
    assert lines(told) == ["q@b", "q@d"]


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("exit 3", "hook, told that q@b leads, ended with status 3"),
        (None, "hook cannot be run: No such file or directory"),
    ],
)
async def test_a_failure_is_logged(
    tmp_path: Path, line: str | None, error: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = str(tmp_path / "hook") if line is None else program(tmp_path, line)
    hook = LeaderHook([path], "q@a")
    hook.leads("q@b")
    await hook.aclose()
    (record,) = caplog.records
    assert record.levelname == "ERROR"
    assert record.getMessage().endswith(error)


async def test_what_takes_too_long_is_ended_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(leader_hook, "HOOK_SECONDS_MAX", 1.0)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    held = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    hook = LeaderHook([program(tmp_path, f'exec 3> "{pipe}"', "sleep 60 & wait")], "q@a")
    hook.leads("q@b")
    await hook.aclose()
    assert "is ended, as it takes more than 1 s" in caplog.text
    os.set_blocking(held, True)
    async with asyncio.timeout(30):
        # The program and its `sleep` hold the other end.
        assert await asyncio.to_thread(os.read, held, 1) == b""
    os.close(held)


async def test_without_a_program_nothing_is_run() -> None:
    hook = LeaderHook((), "q@a")
    hook.leads("q@b")
    await hook.aclose()
