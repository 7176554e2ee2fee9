"""The program that compacts a log, beside the broker: Python code in a thread of it would stop the event loop.

    broker                                        program
      │ ── CompactionTask ─────────────────────────► │  reads segments, writes one to the scratch files
      │ ◄───────────────────────── CompactedSegment ─│
      │  gives it its name                           │
      │ ── an empty line ──────────────────────────► │  writes the next one
      │ ◄──────────────────────────── CompactionEnd ─│

A line of JSON each. The program ends with its standard input, and so with the broker.
"""

import asyncio
import os
import sys
from typing import BinaryIO

import msgspec

from routelog.log_backend.doors.disk import Disk, SystemDisk
from routelog.log_backend.segments.compaction_pass import (
    CompactionEnd,
    CompactionStep,
    CompactionTask,
    compact,
)
from routelog.log_backend.segments.segment_file import SegmentDamaged

NICENESS = 19  # what else the machine has to do goes first
PROGRAM = (sys.executable, "-m", "routelog.log_backend.upkeep.compaction_process")

_steps: msgspec.json.Decoder[CompactionStep] = msgspec.json.Decoder(CompactionStep)


class CompactionFailed(Exception):
    """A pass did not come to its end; the text says why."""


class CompactionProcess:
    """One pass in a process of its own; `end` it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, task: CompactionTask) -> "CompactionProcess":
        """Start the program with a task.

        Raises:
            OSError: the system starts no process.
        """
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *PROGRAM, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
        )
        started = cls(process)
        started._tell(msgspec.json.encode(task))
        return started

    async def step(self) -> CompactionStep:
        """Wait for the next step. A new segment that came before must have its name.

        Raises:
            CompactionFailed: the pass cannot go on.
        """
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        if line.endswith(b"\n"):
            return _steps.decode(line)
        assert self._process.stderr is not None
        words = (await self._process.stderr.read()).decode(errors="replace").strip().splitlines()
        raise CompactionFailed(words[-1] if words else "its program ended without a word")

    def go_on(self) -> None:
        """Have the program take the next step."""
        self._tell(b"")

    def stop(self) -> None:
        """End the program, wherever it is."""
        if self._process.returncode is None:
            self._process.kill()

    async def end(self) -> None:
        """End the program, and wait until it is gone."""
        self.stop()
        await self._process.communicate()  # which closes its pipes

    def _tell(self, line: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + b"\n")


def main(given: BinaryIO, said: BinaryIO, disk: Disk) -> None:
    """Carry out the task that is given, a step for each line.

    Raises:
        SystemExit: the pass cannot go on; the text says why.
    """
    task = msgspec.json.decode(given.readline(), type=CompactionTask)
    try:
        # Another program of a broker that was killed may still be at work.
        for step in compact(disk, task, str(os.getpid())):
            said.write(msgspec.json.encode(step) + b"\n")
            said.flush()
            if not isinstance(step, CompactionEnd) and not given.readline():
                return  # the broker is gone
    except (OSError, SegmentDamaged) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    os.nice(NICENESS)
    main(sys.stdin.buffer, sys.stdout.buffer, SystemDisk())
