"""Starts the program that compacts a log, beside the broker: Python code in a thread would stop the event loop.

    broker                                        program
      │ ── CompactionTask ─────────────────────────► │  reads segments, writes one to the scratch files
      │ ◄───────────────────────── CompactedSegment ─│
      │  gives it its name                           │
      │ ── an empty line ──────────────────────────► │  writes the next one
      │ ◄──────────────────────────── CompactionEnd ─│

A line of JSON each. If the broker is gone, so is the program's standard input: it ends before it reads the next
segment. See compaction_program.py.
"""

import asyncio
import sys

import msgspec

from routelog.log_backend.segments.compaction_pass import CompactionStep, CompactionTask

PROGRAM = (sys.executable, "-m", "routelog.log_backend.upkeep.compaction_program")

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
