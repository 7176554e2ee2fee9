"""What goes on in turns of an event loop, for tests of those who share it."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

from queue_samples import SetClock

from routelog.broker.loop.cork import Cork
from routelog.log_backend import Lane, Scheduler


def scheduler_on(loop: object, clock: Any = None) -> Scheduler:
    """A scheduler of a loop, or of a stub that has its `call_soon`, by default on a clock that stands still."""
    return Scheduler(cast(Any, loop), clock or SetClock())


def ended_in_turn(steps: Iterator[None], scheduler: Scheduler) -> bool:
    """Let them have one turn, as their lane does; returns whether they have ended in it."""
    scheduler.begin(Lane.JOBS)
    return next(steps, scheduler) is scheduler


def services_of(loop: object, cork: Cork | None = None) -> Any:
    """What sockets share, on such a loop."""
    return SimpleNamespace(
        loop=loop, cork=cork or Cork(cast(Any, loop)), scheduler=scheduler_on(loop)
    )
