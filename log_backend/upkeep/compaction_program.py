"""The program that `CompactionProcess` starts. No module imports it: Python warns of one that runs twice."""

import os
import select
import sys
from functools import partial
from typing import BinaryIO

import msgspec

from routelog.log_backend.doors.disk import Disk, SystemDisk
from routelog.log_backend.segments.compaction_pass import CompactionEnd, CompactionTask, compact
from routelog.log_backend.segments.segment_file import SegmentDamaged

NICENESS = 19  # what else the machine has to do goes first


def main(given: BinaryIO, said: BinaryIO, disk: Disk) -> None:
    """Carry out the task that is given, a step for each line.

    Raises:
        SystemExit: the pass cannot go on; the text says why.
    """
    task = msgspec.json.decode(given.readline(), type=CompactionTask)
    try:
        # Another program of a broker that was killed may still be at work.
        for step in compact(disk, task, str(os.getpid()), partial(_look, given)):
            said.write(msgspec.json.encode(step) + b"\n")
            said.flush()
            if not isinstance(step, CompactionEnd) and not given.readline():
                return  # the broker is gone
    except (OSError, SegmentDamaged) as error:
        sys.exit(str(error))


def _look(given: BinaryIO) -> None:
    # The broker says nothing before the next step, so there is something to read only at the end.
    if select.select([given], [], [], 0)[0]:
        sys.exit("the broker is gone")


if __name__ == "__main__":
    os.nice(NICENESS)
    main(sys.stdin.buffer, sys.stdout.buffer, SystemDisk())
