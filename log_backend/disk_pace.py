"""Whether the disk is so quick that the event loop may wait for it.

A commit of the journal's thread costs two changes of thread, which take longer than a quick disk. A slow one
would hold up all connections, so the loop goes by what the last commits took, and stays away for long after
each one that surprised it.
"""

from log_backend.clock import Clock

SLOW_SECONDS = 0.0025  # half of what the loop may be held
QUICK_COMMITS_MIN = 32  # in a row, before the loop takes one: about 10 ms of a busy quick disk
PAUSE_RATIO = 50  # so slow commits take at most 2 % of the loop's time
PAUSE_SECONDS_MAX = 60.0


class DiskPace:
    """How long commits take."""

    __slots__ = ("_clock", "_pause", "_paused_until", "_quick")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._quick = 0  # commits since the last slow one, up to QUICK_COMMITS_MIN
        self._pause = 0.0
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
            self._stay_away(seconds)

    def _stay_away(self, seconds: float) -> None:
        # Twice as long as before, unless the loop has had no slow commit for as long as it stayed away.
        now = self._clock.monotonic()
        again = now - self._paused_until < self._pause
        pause = max(PAUSE_RATIO * seconds, 2 * self._pause if again else 0)
        self._pause = min(pause, PAUSE_SECONDS_MAX)
        self._paused_until = now + self._pause
