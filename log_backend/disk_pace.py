"""Whether the disk is so quick that the event loop may wait for it.

A commit of the journal's thread costs two changes of thread, which take longer than a quick disk. A slow one
would hold up all connections, so the loop goes by what the last commits took, and stays away after each one
that surprised it.
"""

from log_backend.clock import Clock

SLOW_SECONDS = 0.005  # what the loop may be held
QUICK_COMMITS_MIN = 32  # in a row, before the loop takes one: about 10 ms of a busy quick disk
PAUSE_RATIO = 50  # so slow commits take at most 2 % of the loop's time
PAUSE_SECONDS_MAX = 60.0


class DiskPace:
    """How long commits take."""

    __slots__ = ("_clock", "_paused_until", "_quick")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._quick = 0  # commits since the last slow one, up to QUICK_COMMITS_MIN
        self._paused_until = 0.0

    def is_quick(self) -> bool:
        """Whether the next commit will most likely not be noticed on the loop."""
        return self._quick >= QUICK_COMMITS_MIN and self._clock.monotonic() >= self._paused_until

    def took(self, seconds: float, *, on_loop: bool) -> None:
        """Note what a commit took, on the loop or in a thread."""
        if seconds < SLOW_SECONDS:
            if self._quick < QUICK_COMMITS_MIN:
                self._quick += 1
            return
        self._quick = 0
        if on_loop:
            pause = min(PAUSE_RATIO * seconds, PAUSE_SECONDS_MAX)
            self._paused_until = self._clock.monotonic() + pause
