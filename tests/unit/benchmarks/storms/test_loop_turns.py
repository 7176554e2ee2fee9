"""Turns of a loop, by the clock of its thread."""

import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from routelog.benchmarks.storms.loop_turns import LoopTurns, Turn, between, turns_of

# Three turns: one works, one sleeps, one does hardly anything and is left out.
PROGRAM = """
import select, time
poll = select.epoll()
import ctypes
epoll_pwait = ctypes.CDLL(None).epoll_pwait
events = ctypes.create_string_buffer(64)
def turn():
    epoll_pwait(poll.fileno(), events, 1, 0, None)
turn()
until = time.thread_time() + 0.02
while time.thread_time() < until:
    pass
turn()
time.sleep(0.02)
turn()
turn()
"""
MILLISECOND = 1_000_000


def turn(begin: int, elapsed: int, running: int, delayed: int, waits: int) -> Turn:
    milliseconds = begin, elapsed, running, delayed
    (found,) = turns_of(struct.pack("@5q", *(each * MILLISECOND for each in milliseconds), waits))
    return found


def test_what_the_machine_takes_is_no_part_of_a_turn() -> None:
    found = turn(2_000, 9, 3, 2, 0)
    assert (found.begin, found.seconds, found.cpu_seconds) == pytest.approx((2.0, 0.003, 0.003))


def test_what_the_thread_waits_for_is_a_part_of_its_turn() -> None:
    found = turn(2_000, 9, 3, 2, 1)
    assert (found.seconds, found.cpu_seconds) == pytest.approx((0.007, 0.003))


def test_turns_belong_to_the_stretch_in_which_they_began() -> None:
    turns = [Turn(begin, 0.1, 0.1) for begin in (1.0, 2.0, 3.0)]
    assert [turn.begin for turn in between(turns, 1.5, 3.0)] == [2.0]


def test_a_process_writes_down_its_turns_that_are_not_very_short(tmp_path: Path) -> None:
    recording = LoopTurns(tmp_path)
    assert recording.are_known
    environment = {**os.environ, **recording.environment}
    subprocess.run([sys.executable, "-c", PROGRAM], env=environment, check=True)
    worked, slept = recording.all()
    assert worked.cpu_seconds >= 0.02
    assert slept.seconds >= 0.02 > slept.cpu_seconds
    assert slept.begin > worked.begin
