"""Time of an event loop that passes at once: what never happens is shown by a clock, not by a pause."""

from __future__ import annotations

import asyncio
from typing import Any, cast

TURNS = 20  # of the loop behind each moment: more than any chain of calls that a timer begins


async def pass_time(seconds: float) -> None:
    """Let all timers of the loop ring that are due within `seconds`, in their order, and nothing else wait.

    What threads have handed to the loop so far is carried out, too. The loop's clock stays ahead.
    """
    loop = cast(Any, asyncio.get_running_loop())
    clock = loop.time
    ahead = 0.0
    loop.time = lambda: clock() + ahead
    end = loop.time() + seconds
    await take_turns()
    while (now := loop.time()) < end:
        due = min((each.when() for each in loop._scheduled if not each.cancelled()), default=end)
        ahead += max(0.0, min(due, end) - now)
        await take_turns()


async def take_turns() -> None:
    """Let the loop carry out what is ready, and what that begins."""
    for _ in range(TURNS):
        await asyncio.sleep(0)
