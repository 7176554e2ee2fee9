import subprocess
import sys

import pytest

BLOCKS = """
import ctypes
from amqp_front.memory_allocator import KEPT_BYTES_MAX, give_large_blocks_back

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
