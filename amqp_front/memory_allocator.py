"""How the C library keeps freed memory: enough of it for messages, but not what a password check took.

Left to itself it keeps, once a block was freed, as much as that one: 19 MiB of the first login's hash, in each
thread that checked one. Fixed thresholds keep what it would have kept of message bodies, and give larger
blocks back at once.

Source: mallopt(3), "dynamic mmap threshold".
"""

import ctypes
import sys

# Of a block: more than the largest body by default, less than a hash.
KEPT_BYTES_MAX = 18 * 1024 * 1024
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3


def give_large_blocks_back() -> bool:
    """Set the thresholds; returns whether this C library has them."""
    if sys.platform != "linux":
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:
        return False  # another C library than the GNU one
    return bool(
        mallopt(_MMAP_THRESHOLD, KEPT_BYTES_MAX) and mallopt(_TRIM_THRESHOLD, 2 * KEPT_BYTES_MAX)
    )
