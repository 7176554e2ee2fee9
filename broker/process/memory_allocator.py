"""Settings of the C library's allocator, so that it returns memory of password hashes and floods.

By default, a freed block raises the threshold up to which memory is kept: 19 MiB after the first login's hash,
in each thread that verifies passwords. Fixed thresholds keep most bodies and return larger blocks at once. Free
pages between small blocks are kept for ever: 800 MB of a flood of 1 GB. So when messages take much less memory
for some seconds than before, `MemoryTrim` makes the allocator return free pages.

Source: mallopt(3), "dynamic mmap threshold"; malloc_trim(3).
"""

import asyncio
import ctypes
import sys
from collections import deque
from collections.abc import Callable

# Bytes of a block: more than most bodies, less than a hash.
KEPT_BYTES_MAX = 18 * 1024 * 1024
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3

LOOK_SECONDS = 1.0
LOOKS = 5  # large messages come and go each second, and a trim would take their pages away
TRIM_BYTES_MIN = 64 * 1024 * 1024  # freed since the last time: less is soon needed again


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


def give_free_pages_back() -> None:
    """Return to the system what is free in whole pages; where the C library cannot, nothing happens."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(ctypes.c_size_t(0))


class MemoryTrim:
    """Checks each second how much memory messages take, and trims when it stays much lower.

    Args:
        used: bytes of memory that hold messages.
        trim: called in a thread, for it may take long; the loop waits only when it allocates meanwhile.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        used: Callable[[], int],
        trim: Callable[[], None] = give_free_pages_back,
    ) -> None:
        self._loop = loop
        self._used = used
        self._trim = trim
        self._peak_bytes = 0  # since the last trim
        self._recent: deque[int] = deque((0,) * LOOKS, LOOKS)
        self._timer: asyncio.TimerHandle | None = None
        self._trimming: asyncio.Future[None] | None = None

    def start(self) -> None:
        """Begin to watch the process's memory."""
        self._timer = self._loop.call_later(LOOK_SECONDS, self._check_usage)

    def stop(self) -> None:
        """Watch no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _check_usage(self) -> None:
        self.start()
        self._recent.append(self._used())
        needed = max(self._recent)
        self._peak_bytes = max(self._peak_bytes, needed)
        is_trimming = self._trimming is not None and not self._trimming.done()
        if self._peak_bytes - needed >= TRIM_BYTES_MIN and not is_trimming:
            self._peak_bytes = needed
            self._trimming = self._loop.run_in_executor(None, self._trim)
