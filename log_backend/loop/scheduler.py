"""The event loop's run queue: who waits for the loop's time, and how much of it each class of work gets.

A pass of the loop reads its sockets, and then runs the scheduler once. Work waits in lanes. Each lane gets a
share of the pass; time that it overruns is taken off its next shares.

Three kinds of work wait in a lane: a step (`call`), a generator (`run`), and a coroutine (`pause`). A client
that is read has its turn at once, while the reads of the pass have not taken long; then it waits in a lane.
"""

import asyncio
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from enum import IntEnum
from functools import partial
from typing import TypeVar

from routelog.log_backend.doors.clock import Clock, SystemClock


class Lane(IntEnum):
    """A class of work that waits for the loop's time."""

    FRESH = 0  # deliveries of messages just published: every pass runs all of them
    BACKLOG = 1  # deliveries of older messages
    LATE = 2  # clients with little to say that were read late in a pass
    CLIENTS = 3  # clients with more to say than one turn of theirs takes, and those that leave
    JOBS = 4  # long requests of clients, who often wait for them
    LETTERS = 5  # dead letters
    UPKEEP = 6  # background work that nobody waits for
    OPERATORS = 7  # lists, definitions and policies of all operators together
    STARTS = 8  # what is read before anybody is served


# All budgets of the loop's time, in seconds of one pass: together some 10 ms. A pass is to take 25 at most.
READ_SECONDS = 0.002  # of clients that are read; then they wait in LATE or CLIENTS
CLIENT_SECONDS = 0.001  # of one client's commands, at once or in a lane
SHARE_SECONDS = {
    Lane.FRESH: 0.0,  # not used: see `Lane`
    Lane.BACKLOG: 0.001,
    Lane.LATE: 0.002,
    Lane.CLIENTS: 0.001,
    Lane.JOBS: 0.0005,
    Lane.LETTERS: 0.001,
    Lane.UPKEEP: 0.0005,
    Lane.OPERATORS: 0.001,
    Lane.STARTS: 0.02,
}

FOREVER = float("inf")

# One piece of work; it returns True if it must be called again.
Step = Callable[[], bool | None]

_Item = TypeVar("_Item")


class _Line:
    """The steps that wait in one lane.

    Attributes:
        share: of a pass, in seconds.
        owed: seconds by which it overran earlier shares; they are taken off the next ones.
    """

    __slots__ = ("owed", "share", "steps")

    def __init__(self, share: float) -> None:
        self.share = share
        self.owed = 0.0
        self.steps: deque[Step] = deque()


class _Job:
    """A generator, of which each step runs one `next`."""

    __slots__ = ("_steps", "_under_way", "done")

    def __init__(
        self, steps: Iterator[None], done: "asyncio.Future[None]", under_way: "dict[_Job, None]"
    ) -> None:
        self.done = done
        self._steps = steps
        self._under_way = under_way
        under_way[self] = None

    def __call__(self) -> bool:
        if self not in self._under_way:
            return False  # `Scheduler.finish` has run it to its end
        try:
            next(self._steps)
            return True
        except StopIteration:
            error = None
        except Exception as raised:
            error = raised
        del self._under_way[self]
        if not self.done.done():
            if error is None:
                self.done.set_result(None)
            else:
                self.done.set_exception(error)
        return False


class _Pause:
    """A coroutine that waits in a lane; its task resumes in the next pass of the loop, before the scheduler."""

    __slots__ = ("over",)

    def __init__(self, over: "asyncio.Future[None]") -> None:
        self.over = over

    def __call__(self) -> bool:
        if not self.over.done():  # else its task was cancelled
            self.over.set_result(None)
        return False


class Scheduler:
    """The lanes of one event loop, see `scheduler_of`.

    Attributes:
        around: runs a function, for the steps of a lane; set by the owner to cork all sockets meanwhile.
        deadline: monotonic time at which the running step is to return; 0 when none runs.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        self._loop = loop
        self._monotonic = clock.monotonic
        self.around: Callable[[Callable[[], None]], None] = lambda function: function()
        self.deadline = 0.0
        self._lines = [_Line(SHARE_SECONDS[lane]) for lane in Lane]
        self._fresh, self._backlog = self._lines[Lane.FRESH].steps, self._lines[Lane.BACKLOG]
        self._late = self._lines[Lane.LATE]
        self._others = self._lines[Lane.BACKLOG + 1 :]
        self._jobs: dict[_Job, None] = {}
        self._resumes = False  # a coroutine resumes before the next pass
        self._resumed: tuple[_Line, float] | None = None  # its lane, and when it resumed
        self._is_scheduled = False
        self._began = 0.0  # when the pass began, or one before it, see `_knows_began`
        self._knows_began = False

    def now(self) -> float:
        """Monotonic seconds."""
        return self._monotonic()

    def is_over(self) -> bool:
        """Tell whether the running step is to return; True when none runs."""
        return self._monotonic() >= self.deadline

    def shorten(self, seconds: float) -> float:
        """Have the running step return in so many seconds at the latest.

        Returns:
            The deadline before, for a step that sets it again.
        """
        before = self.deadline
        self.deadline = min(before, self._monotonic() + seconds)
        return before

    # -- clients that are read

    def is_late(self) -> bool:
        """Tell whether a client that is read now is to wait in a lane: the reads of this pass have taken long.

        Nobody who is read later goes before those that wait in LATE.
        """
        if self._late.steps:
            return True
        now = self._monotonic()
        if now - self._began < READ_SECONDS or self._knows_began:
            return now - self._began >= READ_SECONDS
        # The first look since long. A call at the end of each pass, to know when one begins, would cost more.
        self._began, self._knows_began = now, True
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._pass)
        return False

    def waiting(self, lane: Lane) -> int:
        """How many steps wait in a lane."""
        return len(self._lines[lane].steps)

    # -- who waits

    def call(self, lane: Lane, step: Step) -> None:
        """Call a function in the next pass of the loop or a later one, after the sockets are read.

        If it returns True, it is called again after the others of its lane, in the same pass if there is
        time. What is added while the lane runs waits for the next pass.
        """
        self._lines[lane].steps.append(step)
        self._schedule()

    def run(self, steps: Iterator[None], lane: Lane) -> "asyncio.Future[None]":
        """Run a generator to its end; other work may run wherever it yields.

        Returns:
            Done when the generator has ended; has the error that it raised, if any.
        """
        job = _Job(steps, self._loop.create_future(), self._jobs)
        self.call(lane, job)
        return job.done

    def finish(self) -> None:
        """Run all generators to their ends before this returns: the broker stops."""
        self.deadline = FOREVER
        while self._jobs:
            for job in list(self._jobs):  # alternately: one may wait for another
                job()
        self.deadline = 0.0

    async def pause(self, lane: Lane) -> float:
        """Let other work run, and wait for a turn; a lane resumes one coroutine in a pass.

        Returns:
            When the share ends that begins with it, see `begin`.
        """
        over: asyncio.Future[None] = self._loop.create_future()
        self.call(lane, _Pause(over))
        await over
        now = self._monotonic()
        self._charge(now)
        self._resumed = self._lines[lane], now
        return self.begin(lane)

    def begin(self, lane: Lane) -> float:
        """Give the running coroutine one share of a lane: `is_over` tells when it has used it up.

        Returns:
            When that is, in seconds of the monotonic clock.
        """
        self.deadline = self._monotonic() + self._lines[lane].share
        return self.deadline

    # -- a pass of the loop

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._pass)

    def _pass(self) -> None:
        if self._resumed is not None:
            self._charge(self._monotonic())
        self._resumes = self._knows_began = False
        try:
            if self._fresh or self._backlog.steps:
                self.around(self._serve_deliveries)
            for line in self._others:
                if line.steps:
                    self.around(partial(self._serve, line))
        finally:  # a step that raises must not stop the others
            self.deadline = 0.0
            self._is_scheduled = False
            for line in self._lines:  # a generator would cost each pass half a microsecond
                if line.steps or self._resumes:
                    self._schedule()
                    break

    def _charge(self, now: float) -> None:
        # The time of a resumed coroutine ends when the next one resumes, or now.
        if self._resumed is not None:
            line, since = self._resumed
            self._resumed = None
            line.owed += now - since

    def _serve_deliveries(self) -> None:
        # The backlog goes first, because it waits for longer. Fresh deliveries all run in any case, and see
        # by `deadline` how much time is left of the share.
        backlog, fresh = self._backlog, self._fresh
        self._serve(backlog)
        until = self._monotonic() - backlog.owed
        for _ in range(len(fresh)):
            self.deadline = until
            fresh.popleft()()

    def _serve(self, line: _Line) -> None:
        line.owed = max(line.owed, 0.0) - line.share
        if line.owed >= 0.0 or not line.steps:
            return
        # Steps that are added meanwhile go to a new deque, for the next pass.
        steps, line.steps = line.steps, deque()
        monotonic = self._monotonic
        began = monotonic()
        until = began - line.owed
        try:
            while steps:
                step = steps.popleft()
                self.deadline = until
                if step():
                    steps.append(step)
                if type(step) is _Pause:
                    self._resumes = True
                    break  # the time of the coroutine is charged when it has run
                if monotonic() >= until:
                    break
        finally:
            line.owed += monotonic() - began
            steps.extend(line.steps)
            line.steps = steps


_schedulers: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Scheduler]" = (
    weakref.WeakKeyDictionary()
)


def scheduler_of(loop: asyncio.AbstractEventLoop) -> Scheduler:
    """Return the one scheduler of an event loop: two would spend two budgets."""
    scheduler = _schedulers.get(loop)
    if scheduler is None:
        scheduler = _schedulers[loop] = Scheduler(weakref.proxy(loop), SystemClock())
    return scheduler


async def pause(lane: Lane) -> None:
    """Let other work of the running loop run; see `Scheduler.pause`."""
    await scheduler_of(asyncio.get_running_loop()).pause(lane)


async def in_turns(items: Iterable[_Item], lane: Lane) -> AsyncIterator[_Item]:
    """Yield items one by one, in as many passes of the running loop as that takes.

    Other work runs in between, and may change what the items are taken from. What is done with an item may go
    in turns itself: its shares count here, too.
    """
    scheduler = scheduler_of(asyncio.get_running_loop())
    until = scheduler.begin(lane)
    for item in items:
        yield item
        scheduler.deadline = until  # what was done with the item may have begun other shares
        if scheduler.is_over():
            until = await scheduler.pause(lane)
