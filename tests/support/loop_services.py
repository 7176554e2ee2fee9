"""What goes on in turns of an event loop, for tests of those who share it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

from support.queue_samples import SetClock

from routelog.broker.loop.cork import Cork
from routelog.log_backend import Lane, Scheduler
from routelog.log_backend.loop import scheduler


def scheduler_on(loop: object, clock: Any = None) -> Scheduler:
    """A scheduler of a loop, or of a stub that has its `call_soon`, by default on a clock that stands still."""
    return Scheduler(cast(Any, loop), clock or SetClock())


def share_a_slow_loop() -> None:
    """The running loop's scheduler gets a clock of its own, on which each look takes a millisecond."""
    loop = asyncio.get_running_loop()
    clock = SetClock()
    clock.look_microseconds = 1_000
    scheduler._schedulers[loop] = scheduler_on(loop, clock)


def ended_in_turn(steps: Iterator[None], shares: Scheduler) -> bool:
    """Let them have one turn, as their lane does; returns whether they have ended in it."""
    shares.begin(Lane.JOBS)
    return next(steps, shares) is shares


def services_of(loop: object, cork: Cork | None = None) -> Any:
    """What sockets share, on such a loop."""
    return SimpleNamespace(loop=loop, cork=cork or Cork(), scheduler=scheduler_on(loop))
