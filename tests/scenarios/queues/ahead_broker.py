"""A broker whose clock is two hours ahead: run as a program."""

from __future__ import annotations

from routelog.__main__ import main
from routelog.log_backend import SystemClock

AHEAD_MICROSECONDS = 2 * 3_600 * 10**6

if __name__ == "__main__":
    now = SystemClock.now
    SystemClock.now = lambda clock: now(clock) + AHEAD_MICROSECONDS  # type: ignore[assignment, method-assign]
    main()
