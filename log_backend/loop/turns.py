"""Long work of the event loop, cut into turns: others have theirs whenever a share of time is used up."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

from routelog.log_backend.doors.clock import Clock

SHARE_SECONDS = 0.0005  # of one turn; what waits may come behind several such works

_Item = TypeVar("_Item")


async def in_turns(items: Iterable[_Item], clock: Clock) -> AsyncIterator[_Item]:
    """Give items one by one, in as many turns of the event loop as that takes.

    What the items are may change between two of them.
    """
    until = clock.monotonic() + SHARE_SECONDS
    for item in items:
        yield item
        if clock.monotonic() >= until:
            await asyncio.sleep(0)
            until = clock.monotonic() + SHARE_SECONDS
