"""Waiting for what a broker, a thread or a node brings about by itself."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from pika.adapters.blocking_connection import BlockingConnection

# For what never comes: a machine that is busy with other things may be thirty times slower.
WAIT_SECONDS = 60.0
POLL_SECONDS = 0.005


def wait_until(
    condition: Callable[[], object],
    *connections: BlockingConnection,
    seconds: float = WAIT_SECONDS,
    told: Callable[[], object] = lambda: "the condition did not come true in time",
) -> None:
    """Wait until the condition holds.

    Args:
        connections: whose input is handled meanwhile.
        told: what the failure says.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, told()
        for connection in connections:
            connection.process_data_events(time_limit=POLL_SECONDS)
        if not connections:
            time.sleep(POLL_SECONDS)


async def until(condition: Callable[[], object]) -> None:
    """Wait until the condition holds, while this event loop goes on."""
    async with asyncio.timeout(WAIT_SECONDS):
        while not condition():  # noqa: ASYNC110 -- others than this loop's tasks bring it about, too
            await asyncio.sleep(0.001)
