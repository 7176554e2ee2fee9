"""A parent and its processes: starts, deaths and the end."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.broker_process import ROOT, is_there
from support.waiting import wait_until

from routelog.broker.process.processes import FAILED, TOLD_TO_END

PROGRAM = Path(__file__).with_name("family.py")


class Family:
    """A parent, and what it and its processes print."""

    def __init__(self, output: Path, *arguments: str) -> None:
        self._output = output
        with output.open("wb") as file:
            self.parent = subprocess.Popen(
                [sys.executable, str(PROGRAM), *arguments],
                stdout=file,
                stderr=subprocess.DEVNULL,
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
            )

    @property
    def said(self) -> list[str]:
        """The lines so far, without numbers of processes."""
        return [re.sub(r" lives \d+", " lives", line) for line in self._lines()]

    def pids(self, number: int) -> list[int]:
        """The system's numbers of one of the processes, of each start."""
        begin = f"{number} lives "
        return [int(line[len(begin) :]) for line in self._lines() if line.startswith(begin)]

    def _lines(self) -> list[str]:
        return self._output.read_text().splitlines()

    def wait_for(self, *lines: str) -> Family:
        """Wait until all of these are said, each as often as it stands here."""
        wait_until(
            lambda: all(self.said.count(each) >= lines.count(each) for each in lines),
            told=lambda: "\n".join(self.said),
        )
        return self

    def end(self) -> int:
        """SIGTERM to the parent; returns its status."""
        self.parent.send_signal(signal.SIGTERM)
        return self.parent.wait(30)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Family]]:
    """Starts families."""
    families: list[Family] = []

    def started(*arguments: str) -> Family:
        families.append(Family(tmp_path / "output", *arguments))
        return families[-1]

    yield started
    for family in families:
        family.parent.kill()
        family.parent.wait()


def test_the_others_start_behind_the_first_and_all_are_told_to_end(
    start: Callable[..., Family],
) -> None:
    family = start("3").wait_for("ready")
    assert family.said[0] == "1 lives"
    assert family.said[-1] == "ready"
    assert family.end() == 0
    said = family.said[family.said.index("ready") + 1 :]
    assert said[0] == "stopping"
    ends = [f"{number} {does}" for number in (1, 2, 3) for does in ("ends", "told SIGUSR1")]
    assert sorted(said[1:]) == ends


def test_none_waits_for_the_end_of_another_to_be_told(start: Callable[..., Family]) -> None:
    family = start("2", "2 is last").wait_for("ready")
    assert family.end() == 0
    assert family.said[-1] == "2 ends"


@pytest.mark.parametrize("number", [1, 2])
def test_who_dies_is_started_again_alone(start: Callable[..., Family], number: int) -> None:
    family = start("2").wait_for("ready")
    os.kill(family.pids(number)[0], signal.SIGKILL)
    wait_until(lambda: len(family.pids(number)) == 2)
    assert len(family.pids(3 - number)) == 1
    assert is_there(family.pids(3 - number)[0])
    assert family.said.count("ready") == 1
    assert family.end() == 0


def test_who_ends_by_itself_is_started_again(start: Callable[..., Family]) -> None:
    family = start("2").wait_for("ready")
    os.kill(family.pids(2)[0], TOLD_TO_END)
    wait_until(lambda: len(family.pids(2)) == 2)
    assert family.end() == 0


@pytest.mark.parametrize("number", [1, 2])
def test_only_the_parent_tells_a_process_to_end(start: Callable[..., Family], number: int) -> None:
    family = start("2").wait_for("ready")
    for sent in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        os.kill(family.pids(number)[0], sent)
    family.wait_for(f"{number} told SIGHUP")
    assert len(family.pids(number)) == 1
    assert family.end() == 0
    assert not {f"{number} told SIGTERM", f"{number} told SIGINT"} & {*family.said}


@pytest.mark.parametrize("number", [1, 2])
def test_who_cannot_start_ends_all(start: Callable[..., Family], number: int) -> None:
    family = start("2", f"{number} fails")
    assert family.parent.wait(30) == 1
    assert "ready" not in family.said
    assert not any(is_there(each) for each in (*family.pids(1), *family.pids(2)))


def test_a_front_that_cannot_start_later_is_tried_again(start: Callable[..., Family]) -> None:
    family = start("2", "2 fails later").wait_for("ready")
    os.kill(family.pids(2)[0], signal.SIGKILL)
    wait_until(lambda: len(family.pids(2)) == 4 or family.parent.poll() is not None)
    assert family.parent.poll() is None
    assert is_there(family.pids(1)[0])


def test_the_first_process_that_cannot_start_later_ends_all(start: Callable[..., Family]) -> None:
    family = start("2", "1 fails later").wait_for("ready")
    os.kill(family.pids(1)[0], signal.SIGKILL)
    assert family.parent.wait(30) == 1
    assert not is_there(family.pids(2)[0])


def test_who_does_not_end_is_ended(start: Callable[..., Family]) -> None:
    family = start("2", "2 is deaf").wait_for("ready")
    assert family.end() == 0
    assert sorted(family.said[-3:]) == ["1 ends", "1 told SIGUSR1", "2 told SIGUSR1"]


def test_the_end_of_a_process_with_data_by_a_signal_is_a_failure(
    start: Callable[..., Family],
) -> None:
    family = start("2", "1 is deaf").wait_for("ready")
    family.parent.send_signal(signal.SIGTERM)
    family.wait_for("1 told SIGUSR1", "2 ends")
    os.kill(family.pids(1)[0], signal.SIGKILL)
    assert family.parent.wait(30) == FAILED


def test_a_signal_to_read_certificates_again_reaches_all(start: Callable[..., Family]) -> None:
    family = start("2").wait_for("ready")
    family.parent.send_signal(signal.SIGHUP)
    family.wait_for("1 told SIGHUP", "2 told SIGHUP")
    assert family.end() == 0


def test_no_process_outlives_its_parent(start: Callable[..., Family]) -> None:
    family = start("2").wait_for("ready")
    family.parent.kill()
    family.parent.wait()
    wait_until(lambda: not any(is_there(each) for each in (*family.pids(1), *family.pids(2))))
    assert "1 ends" not in family.said
