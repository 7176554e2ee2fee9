import subprocess
import sys
from typing import Any, cast

import pytest

from routelog.broker.process.memory_allocator import (
    LOOKS,
    TRIM_BYTES_MIN,
    MemoryTrim,
    give_free_pages_back,
)

BLOCKS = """
import ctypes
from routelog.broker.process.memory_allocator import KEPT_BYTES_MAX, give_large_blocks_back

def resident():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4096

if {called}:
    assert give_large_blocks_back()
before = resident()
for _ in range(3):
    block = bytearray({bytes})
    del block
print(resident() - before)
"""


def kept(size: str, *, called: bool) -> int:
    """What a process keeps of a block that it takes and frees three times."""
    script = BLOCKS.format(called=called, bytes=size)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="of the GNU C library")
def test_large_blocks_are_given_back_and_smaller_ones_kept_for_the_next() -> None:
    assert kept("19 << 20", called=False) > 10 << 20, "there is no reason for the thresholds"
    assert kept("19 << 20", called=True) < 4 << 20
    assert kept("16 << 20", called=True) > 10 << 20


SCATTERED = """
from routelog.broker.process.memory_allocator import give_free_pages_back, give_large_blocks_back

def resident():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4096

give_large_blocks_back()
before = resident()
blocks = [bytearray(100_000) for _ in range(3_000)]
del blocks[::2], blocks[:-1]
freed = resident()
give_free_pages_back()
print(freed - before, resident() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="of the GNU C library")
def test_what_lies_between_other_blocks_is_given_back_when_asked() -> None:
    done = subprocess.run([sys.executable, "-c", SCATTERED], capture_output=True, check=True)
    kept, left = map(int, done.stdout.split())
    assert kept > 200 << 20, "there is no reason to ask"
    assert left < 20 << 20


class Loop:
    """Runs what is due, and threads, when it is told to."""

    def __init__(self) -> None:
        self.due: list[Any] = []
        self.work: list[Any] = []

    def call_later(self, seconds: float, function: Any) -> Any:
        self.due.append(function)
        return self

    def run_in_executor(self, executor: None, function: Any) -> Any:
        self.work.append(function)
        return self

    def done(self) -> bool:
        return not self.work

    def look(self) -> None:
        self.due.pop()()


def look(trim_loop: Loop, times: int = LOOKS) -> None:
    for _ in range(times):
        trim_loop.look()


def test_memory_is_trimmed_once_for_each_fall() -> None:
    loop, used = Loop(), [0]
    trim = MemoryTrim(cast(Any, loop), lambda: used[0])
    trim.start()
    for used[0] in (0, 3 * TRIM_BYTES_MIN, 2 * TRIM_BYTES_MIN + 1):
        look(loop)
        assert not loop.work
    used[0] = TRIM_BYTES_MIN
    look(loop)
    assert loop.work == [give_free_pages_back]
    used[0] = 0
    look(loop)
    assert len(loop.work) == 1, "one at a time"
    loop.work.clear()
    look(loop)
    assert len(loop.work) == 1


def test_memory_that_is_used_again_within_seconds_is_not_trimmed() -> None:
    loop, used = Loop(), [0]
    trim = MemoryTrim(cast(Any, loop), lambda: used[0])
    trim.start()
    for _ in range(10):
        used[0] = 3 * TRIM_BYTES_MIN
        look(loop, 1)
        used[0] = 0
        look(loop, LOOKS - 1)
    assert not loop.work
    look(loop, 1)
    assert len(loop.work) == 1
