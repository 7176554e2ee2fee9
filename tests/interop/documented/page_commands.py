"""Commands that pages of docs/ show, as they stand there, and a shell that runs them at a test's places."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from interop.documented.page_snippets import BLOCK
from support.broker_process import ROOT, TEST_LIMITS, BrokerProcess
from support.waiting import wait_until
from typer.testing import CliRunner

from routelog.__main__ import command_line

# First words of commands between back-ticks.
PROGRAMS = "routelog|cluster|curl|sudo|systemctl|journalctl|kill|make|rabbitmqctl"
FOLLOW_SECONDS_MAX = 60.0


def text_of(page: str) -> str:
    """A page of docs/, wherever it lies there."""
    (file,) = (ROOT / "docs").rglob(page)
    return file.read_text()


def blocks(page: str, language: str) -> list[str]:
    """What the page shows in a language, without its indent."""
    return [
        re.sub(rf"^{indent}", "", shown, flags=re.MULTILINE)
        for indent, named, shown in BLOCK.findall(text_of(page))
        if named == language
    ]


def lines(block: str) -> list[str]:
    """The commands of a block; one that ends with a backslash goes on."""
    shown = (line.strip() for line in block.replace("\\\n", " ").splitlines())
    return [line for line in shown if line and line[0] != "#"]


def told_commands(page: str) -> list[str]:
    """Commands between back-ticks, outside of blocks, each once."""
    prose = " ".join(BLOCK.sub("", text_of(page)).split())
    return list(dict.fromkeys(re.findall(rf"`((?:{PROGRAMS}) [^`]*)`", prose)))


def first_cells(page: str, head: str) -> list[str]:
    """What the first column of a table has below its head."""
    table = text_of(page).partition(f"| {head} |")[2].partition("\n\n")[0]
    return [line.split(" | ")[0].removeprefix("| ") for line in table.splitlines()[2:]]


class Shell:
    """Runs commands of a page as an operator does who has `routelog` on the path.

    Args:
        folder: of this shell; the working directory of what it runs.
        places: what stands here for what the page has, such as its ports; each is there.
    """

    def __init__(
        self, folder: Path, environment: Mapping[str, str], places: Mapping[str, str]
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        program = folder / "routelog"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m routelog "$@"\n')
        program.chmod(0o700)
        self.folder = folder
        self.places = dict(places)
        self.environment = {
            **os.environ,
            "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT / "src"),
            **environment,
        }

    def here(self, command: str) -> str:
        """The command with the places of this test."""
        for place, other in self.places.items():
            command = command.replace(place, other)
        return command

    def run(self, command: str, code: int = 0, given: str = "") -> str:
        """What the command prints; another exit code fails the test."""
        ended, out, err = self.ended(command, given)
        assert ended == code, (self.here(command), ended, out, err)
        return out

    def ended(self, command: str, given: str = "") -> tuple[int, str, str]:
        """A command's exit code, and what it prints and complains of.

        One of ours alone runs in this process, which saves the second that another one takes to start.

        Args:
            given: its standard input.
        """
        written = self.here(command)
        words = shlex.split(written, comments=True)
        if words[0] == "routelog" and not set(written) & set("|&;<>"):
            done = CliRunner().invoke(command_line, words[1:], given, env=self.environment)
            if done.exception is not None and not isinstance(done.exception, SystemExit):
                raise done.exception
            return done.exit_code, done.stdout, done.stderr
        process = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", written],
            cwd=self.folder,
            env=self.environment,
            input=given,
            capture_output=True,
            text=True,
            check=False,
        )
        return process.returncode, process.stdout, process.stderr

    def keep(self, command: str) -> None:
        """Run a command that sets variables: what follows has them."""
        told = self.run(f"{command}\nenv --null")
        self.environment = dict(each.split("=", 1) for each in told.split("\0") if each)

    def serve(self, command: str, data_dir: Path, **environment: str) -> BrokerProcess:
        """The broker that a command runs; it has to be ready."""
        return _ShownBroker(self, command, data_dir, environment).start()

    def follow(self, command: str) -> FollowingProcess:
        """The standby that a command runs; it has to be ready."""
        return FollowingProcess(self, command)


class _ShownBroker(BrokerProcess):
    """A broker whose command stands in a page."""

    def __init__(
        self, shell: Shell, command: str, data_dir: Path, environment: dict[str, str]
    ) -> None:
        super().__init__(data_dir, {**shell.environment, **TEST_LIMITS, **environment})
        self._written = shell.here(command)

    def _command(self) -> list[str]:
        return ["bash", "-euc", f"exec {self._written}"]


class FollowingProcess:
    """`routelog follow`, as it stands in a page."""

    def __init__(self, shell: Shell, command: str) -> None:
        self._log = shell.folder / "follow.log"
        with self._log.open("wb") as output:
            self.process = subprocess.Popen(
                ["bash", "-euc", f"exec {shell.here(command)}"],
                cwd=shell.folder,
                env=shell.environment,
                stdout=output,
                stderr=output,
            )
        ready = "\nroutelog standby ready: "
        wait_until(
            lambda: ready in f"\n{self._log.read_text()}" or self.process.poll() is not None,
            seconds=FOLLOW_SECONDS_MAX,
        )
        assert self.process.poll() is None, self._log.read_text()

    def stop(self) -> None:
        """At the end of a test, whatever happened in it."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()
