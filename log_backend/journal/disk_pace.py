"""Whether the disk is so quick that the event loop may wait for it.

A commit of the journal's thread costs two changes of thread, which take longer than a quick disk. A slow one
would hold up all connections, so the loop goes by what the last commits took, and by what slow ones of its own
have cost it so far: they may take a small share of its time, which it may have saved up for a while.
"""

from routelog.log_backend.doors.clock import Clock

SLOW_SECONDS = 0.001  # beyond, the loop has work of other clients meanwhile
QUICK_COMMITS_MIN = 8  # in a row, before the loop takes one
SLOW_SHARE = 0.02  # of the loop's time that its slow commits may take
CREDIT_SECONDS_MAX = 0.1  # saved up: a stall now and then sends nothing to the thread
PAUSE_SECONDS_MAX = 60.0


class DiskPace:
    """How long commits take."""

    __slots__ = ("_clock", "_credit", "_credited_at", "_paused_until", "_quick")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._quick = 0  # commits since the last slow one, up to QUICK_COMMITS_MIN
        self._credit = CREDIT_SECONDS_MAX  # what slow commits of the loop may take now
        self._credited_at = clock.monotonic()
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
            self._pay(seconds)

    def _pay(self, seconds: float) -> None:
        now = self._clock.monotonic()
        earned = SLOW_SHARE * (now - self._credited_at)
        self._credit = min(CREDIT_SECONDS_MAX, self._credit + earned) - seconds
        self._credit = max(self._credit, -PAUSE_SECONDS_MAX * SLOW_SHARE)
        self._credited_at = now
        if self._credit < 0:
            self._paused_until = now - self._credit / SLOW_SHARE
