# cython: annotation_typing=False
# mypy: allow-untyped-decorators, no-warn-return-any, disable-error-code="index,name-defined"
"""The backlog of a queue whose consumers nearly keep up: publishers are to wait for it, see `ConsumerGates`."""

import cython

# More than this is a backlog: consumers must not run dry meanwhile.
BACKLOG_SECONDS_MIN = 0.0025  # that consumers need for it; what they hold is no backlog, either
BACKLOG_MESSAGES_MIN = 64
BACKLOG_SECONDS_MAX = 1.0  # what they need longer for is a store: nobody waits for them
CAME_TIMES_MAX = 4  # what comes, as a multiple of what they take: the queue grows, whoever waits
RATE_SECONDS = 0.01  # what comes and what is taken are counted for so long, or up to ten times

# Compiled code reads these as C variables: a module's names it reads as slowly as Python does.
_BACKLOG_SECONDS_MIN = cython.declare(cython.double, BACKLOG_SECONDS_MIN)
_BACKLOG_MESSAGES_MIN = cython.declare(cython.longlong, BACKLOG_MESSAGES_MIN)
_BACKLOG_SECONDS_MAX = cython.declare(cython.double, BACKLOG_SECONDS_MAX)
_CAME_TIMES_MAX = cython.declare(cython.longlong, CAME_TIMES_MAX)
_RATE_SECONDS = cython.declare(cython.double, RATE_SECONDS)


@cython.final
@cython.cclass
class Backlog:
    """What comes to the consumers of a queue and what they take, and whether a backlog of theirs stands."""

    __slots__ = ("_came", "_rate", "_since", "_taken")

    def __init__(self) -> None:
        self._rate = 0.0  # messages a second that are taken; 0: not known, or not enough
        self._since = 0.0  # monotonic seconds, when counting began
        self._came = self._taken = 0  # messages since then

    @cython.ccall
    @cython.locals(came=cython.longlong, taken=cython.longlong)
    def count(self, came: int, taken: int) -> None:
        """Count messages of one turn."""
        self._came += came
        self._taken += taken

    @cython.ccall
    @cython.returns(cython.bint)
    @cython.exceptval(check=True)
    @cython.locals(
        ready=cython.longlong, unacked=cython.longlong, now=cython.double, seconds=cython.double
    )
    def stands(self, ready: int, unacked: int, now: float) -> bool:
        """Whether publishers are to wait.

        Args:
            ready: messages that wait for a consumer.
            unacked: messages that consumers hold.
            now: monotonic seconds.
        """
        if ready <= _BACKLOG_MESSAGES_MIN:
            return False
        seconds = now - self._since
        if seconds >= _RATE_SECONDS:
            self._rate = 0.0
            if seconds < 10 * _RATE_SECONDS and self._came <= _CAME_TIMES_MAX * self._taken:
                self._rate = self._taken / seconds
            self._since, self._came, self._taken = now, 0, 0
        if ready <= self._rate * _BACKLOG_SECONDS_MIN or ready > self._rate * _BACKLOG_SECONDS_MAX:
            return False
        return ready > unacked
