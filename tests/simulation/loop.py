"""An event loop of virtual time, without sockets and threads: what is for a thread is done between turns."""

import asyncio
import sys
from asyncio import events
from collections import deque
from collections.abc import Callable
from heapq import heappop
from typing import Any, cast

from routelog.log_backend.journal.journal import Journal

TURNS_MAX = 20_000  # of a loop that comes to no rest
RESOLUTION_SECONDS = 1e-9


class Loop(asyncio.BaseEventLoop):
    """It turns when it is told, until nothing is left to do at this time.

    Attributes:
        errors: that nobody has handled.
    """

    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]

    def __init__(self, seconds: Callable[[], float]) -> None:
        self.time = seconds  # type: ignore[method-assign]
        super().__init__()
        self.errors: list[BaseException] = []
        self.set_exception_handler(self._noted)

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., Any], *args: Any, context: Any = None
    ) -> asyncio.Handle:
        """See the event loop's method of this name."""
        return self.call_soon(callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., Any], *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        """See the event loop's method of this name.

        It may run early by less than the resolution. Who sets it again then for what is left would do so for
        ever, as time stands still meanwhile.
        """
        when = max(when, self.time() + RESOLUTION_SECONDS)
        return super().call_at(when, callback, *args, context=context)

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, call: Callable[..., Any], *arguments: Any
    ) -> asyncio.Future[Any]:
        """Call it at once; the result is known when the loop has turned."""
        done = self.create_future()
        try:
            tell, result = done.set_result, call(*arguments)
        except Exception as error:
            tell, result = done.set_exception, error
        self.call_soon(_tell, done, tell, result)
        return done

    def _check_closed(self) -> None:
        """What a killed process has left may ask for more, which never comes."""

    def next_timer(self) -> float | None:
        """When it has something to do, beside what it is to do now."""
        return self._scheduled[0].when() if self._scheduled else None

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do at this time."""
        timers = self._scheduled
        return not self._ready and not (
            timers and timers[0].when() < self.time() + RESOLUTION_SECONDS
        )

    def settle(self) -> None:
        """Turn until it is idle."""
        if self.is_idle:
            return
        assert events._get_running_loop() is None
        own = cast(Any, self)
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(
            firstiter=own._asyncgen_firstiter_hook, finalizer=own._asyncgen_finalizer_hook
        )
        events._set_running_loop(self)
        try:
            for _ in range(TURNS_MAX):
                self._turn()
                if self.is_idle:
                    return
        finally:
            events._set_running_loop(None)
            sys.set_asyncgen_hooks(*hooks)
        raise AssertionError("a loop comes to no rest")

    def _turn(self) -> None:
        # As the event loop's `_run_once`, which would look at sockets.
        ready, timers = self._ready, self._scheduled
        ends = self.time() + RESOLUTION_SECONDS
        while timers and (timers[0].when() < ends or timers[0].cancelled()):
            timer = heappop(timers)
            cast(Any, timer)._scheduled = False
            ready.append(timer)
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle.cancelled():
                cast(Any, handle)._run()

    def _noted(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if (error := context.get("exception")) is not None:
            self.errors.append(error)


def _tell(done: asyncio.Future[Any], tell: Callable[[Any], None], result: Any) -> None:
    if not done.cancelled():
        tell(result)


class CommitThread:
    """In the place of a journal's thread and of its jobs: it writes when the loop turns."""

    def __init__(self, journal: Journal, loop: Loop) -> None:
        self._journal = journal
        self._loop = loop
        self._jobs: deque[Any] = deque()
        own = cast(Any, journal)
        own._thread = own._jobs = self

    def start(self) -> None:
        """See `Thread`."""

    def is_alive(self) -> bool:
        """There is nothing to wait for, when the journal is closed."""
        return False

    def put(self, job: object) -> None:
        """See `SimpleQueue`."""
        self._jobs.append(job)
        self._loop.call_soon(cast(Any, self._journal)._write_blocks)

    def get(self) -> object:
        """See `SimpleQueue`; None: the thread ends, until there is more."""
        return self._jobs.popleft() if self._jobs else None
